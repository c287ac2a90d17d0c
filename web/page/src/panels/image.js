// SPDX-License-Identifier: Apache-2.0
// Image tokens: a grid or a clip between words, the positions that its tokens get, and how a query scores each of them, axis by axis.
import {Card} from "../chart/card.js";
import {choice, Slider} from "../controls.js";
import {axis, cells, curve, figure, rowOf} from "../figures.js";
import {number} from "../numbers.js";
import {formula, Shell} from "../shell.js";
import {figureWords, say} from "../words.js";

/** @typedef {import("../app.js").App} App */

const IMAGES = ["image", "video"];

class Image {
  /** @param {App} app */
  constructor(app) {
    this.app = app;
    this.shell = new Shell("image");
    const changed = (/** @type {boolean} */ moving) => void this.refresh(moving);
    /** @type {{name: string, spec: any, tokens: any}[]} */
    this.specs = [];
    this.spec = choice(app, {key: "image", label: "kind", values: () => this.specs.map(({name}, i) => [String(i), name])}, () => changed(false));
    this.rows = new Slider(app, {key: "rows", label: "rows", low: 1, high: 24}, changed);
    this.columns = new Slider(app, {key: "columns", label: "columns", low: 1, high: 24}, changed);
    this.frames = new Slider(app, {key: "frames", label: "frames", low: 1, high: 4}, changed);
    this.query = new Slider(app, {key: "query", label: "query", low: -1, high: 63}, changed);
    this.score = new Card("image-score", {pick: (panel, row, column) => this.pick(panel, row, column), summary: () => this.sentence});
    this.parts = new Card("image-axes", {pick: (_, row, column) => this.pick(this.pickedFrame, row, column)});
    this.places = new Card("image-positions");
    this.sentence = "";
    this.pickedFrame = 0;
    this.shell.control(this.spec, this.rows, this.columns, this.frames, this.query);
    this.shell.body.append(this.score.element, this.parts.element, this.places.element, formula("axes"));
    this.element = this.shell.element;
  }

  words() { this.shell.words(); }

  /** The tokens of the chosen kind with the page's grid. */
  tokens() {
    const {state} = this.app;
    const [rows, columns, frames] = [Math.round(state.get("rows")), Math.round(state.get("columns")), Math.round(state.get("frames"))];
    const {tokens} = this.specs[Math.min(Math.max(state.get("image"), 0), this.specs.length - 1)];
    if (tokens.kind !== "mrope") return {...tokens, grids: [{frames, rows, columns}]};
    const seen = frames > 1 ? {video: {frames, rows, columns, seconds: 1}} : {image: {rows, columns}};
    return {...tokens, parts: [{text: 3}, seen, {text: 3}]};
  }

  /** @param {number} panel @param {number} row @param {number} column */
  pick(panel, row, column) {
    const at = this.grid?.findIndex(
        (/** @type {any} */ token) => (token.frame || 0) === panel && token.row === row && token.column === column && IMAGES.includes(token.kind));
    if (at === undefined || at < 0) return;
    this.app.state.set("query", at);
    void this.refresh(false);
  }

  /** @param {boolean} moving */
  async refresh(moving) {
    const {app, shell} = this;
    if (!this.specs.length) {
      const answer = await app.ask(shell, "image-specs", {method: "image.specs"});
      if (!answer) return;
      this.specs = answer.specs;
      this.spec.show();
    }
    const {spec} = this.specs[Math.min(Math.max(app.state.get("image"), 0), this.specs.length - 1)];
    const asked = {method: "image.scores", spec, tokens: this.tokens(), query: Math.round(app.state.get("query"))};
    const scores = await app.ask(shell, "image-scores", asked);
    if (!scores) return;
    this.grid = scores.token;
    this.query.limits(-1, scores.token.length - 1);
    this.draw(scores, moving);
  }

  /**
   * Values of tokens as grids, a panel for each frame.
   * @param {ArrayLike<number>} values @param {{title: string, label: string}} words @param {number} [only] this frame alone
   */
  frames_(values, words, only) {
    const {state} = this.app;
    const [rows, columns, frames] = [Math.round(state.get("rows")), Math.round(state.get("columns")), Math.round(state.get("frames"))];
    return Array.from({length: frames}, (_, frame) => frame).flatMap((frame) => {
      if (only !== undefined && frame !== only) return [];
      const data = new Float64Array(rows * columns).fill(NaN);
      (this.grid || []).forEach((/** @type {any} */ token, /** @type {number} */ i) => {
        if (IMAGES.includes(token.kind) && (token.frame || 0) === frame && token.row !== undefined && token.row !== null)
          data[token.row * columns + token.column] = values[i];
      });
      const title = frames > 1 && only === undefined ? `${words.title} ${say("frame")} ${frame}`.trim() : words.title;
      return [cells({title, x: "column", y: "row", label: words.label}, {shape: [rows, columns], data})];
    });
  }

  /** @param {any} scores @param {boolean} moving */
  draw(scores, moving) {
    const {query} = scores;
    const token = scores.token[query];
    const where = !IMAGES.includes(token.kind) ? say("token_text", {query}) : say("token_image", {query, row: token.row, column: token.column});
    const all = Array.from(scores.score.data, Number);
    const low = all.reduce((best, value, i) => (value < all[best] ? i : best), 0);
    const places =
        Array.from({length: scores.axes}, (_, i) => `${figureWords(scores.axis_names[i])} ${number(rowOf(scores.positions, i)[query])}`)
            .join(", ");
    this.sentence = say("image_sum", {where, places, low: number(all[low]), token: low});
    this.pickedFrame = token.frame || 0;
    const panels = this.frames_(scores.score.data, {title: "", label: "score"});
    this.score.update(figure(say("image_title", {where}), panels, Math.min(panels.length, 2)), moving);
    const parts = scores.axis_names.flatMap(
        (/** @type {string} */ name, /** @type {number} */ i) =>
            this.frames_(rowOf(scores.by_axis, i), {title: name, label: "part of the score"}, this.pickedFrame));
    this.parts.update(figure("The same score, axis by axis", parts, Math.min(parts.length, 3)), moving);
    if (moving) return; // a mark for each token and axis: when the thumb is let go
    const x = Array.from({length: scores.token.length}, (_, i) => i);
    const curves = scores.axis_names.map(
        (/** @type {string} */ name, /** @type {number} */ i) => curve(name, x, rowOf(scores.positions, i), {mark: "points"}));
    this.places.update(
        figure("Positions of the tokens, in the order that the model reads", [{title: "", x: axis("token"), y: axis("position"), curves}]), moving);
  }
}

export const image = {
  id: "image",
  build: (/** @type {App} */ app) => new Image(app)
};
