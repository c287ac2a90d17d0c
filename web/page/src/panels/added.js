// SPDX-License-Identifier: Apache-2.0
// Added encodings: the sinusoid, how alike positions are under it, the operator that moves it, what sets encodings apart, and a table grown to its square.
import {Card} from "../chart/card.js";
import {Slider} from "../controls.js";
import {make} from "../dom.js";
import {cells, counting, figure, names} from "../figures.js";
import {number} from "../numbers.js";
import {facts, formula, Shell} from "../shell.js";
import {say} from "../words.js";

/** @typedef {import("../app.js").App} App */

const ENCODINGS = ["sinusoidal", "raw_index", "scaled_index", "binary", "learned"];
const MOST = 400;
const MOVING = 96;  // rows while a thumb moves: every second, third, ... position of as long a text

class Added {
  /** @param {App} app */
  constructor(app) {
    this.app = app;
    this.shell = new Shell("added");
    const changed = (/** @type {boolean} */ moving) => void this.refresh(moving);
    this.width = new Slider(app, {key: "width", label: "width", low: 4, high: 256, step: 2}, changed);
    this.length = new Slider(app, {key: "length", label: "positions", low: 4, high: MOST}, changed);
    this.shift = new Slider(app, {key: "shift", label: "shift", low: -64, high: 64}, changed);
    this.alpha = new Slider(app, {key: "alpha", label: "alpha", low: 0.05, high: 0.95, step: 0.05, words: String}, changed);
    this.rows = new Card("sinusoid");
    this.similarity = new Card("sinusoid-similarity");
    this.operator = new Card("shift-operator");
    this.defect = make("div", {"data-facts": "shift"});
    this.properties = make("div", {class: "scroll", tabindex: 0, role: "group"});
    this.propertiesTitle = make("h3", {});
    this.grown = new Card("hierarchical");
    this.shell.control(this.width, this.length);
    this.shell.body.append(
        this.rows.element, formula("sinusoid"), this.similarity.element, this.shift.element, this.operator.element, this.defect, formula("shift"),
        make("section", {class: "card"}, this.propertiesTitle, this.properties), this.alpha.element, this.grown.element);
    this.shell.shown.push(this.shift, this.alpha);
    this.element = this.shell.element;
  }

  words() { this.shell.words(); }

  /** @param {boolean} moving */
  async refresh(moving) {
    const {app, shell} = this;
    const {state} = app;
    const sinusoidal = {width: Math.round(state.get("width") / 2) * 2};
    const length = Math.min(Math.round(state.get("length")), MOST);
    const step = moving ? Math.ceil(length / MOVING) : 1;
    const positions = `0:${length}:${step}`;
    const numbers = names(counting(Math.ceil(length / step)).map((row) => row * step));
    const asked = [
      app.askNew(moving, shell, "sinusoid", {method: "sinusoid", sinusoidal, positions}),
      app.askNew(moving, shell, "sinusoid-similarity", {method: "sinusoid.similarity", sinusoidal, positions}),
      app.askNew(moving, shell, "sinusoid-shift", {method: "sinusoid.shift", sinusoidal, distance: Math.round(state.get("shift")), position: 0}),
    ];
    const rows = await asked[0];
    if (rows)
      this.rows.update(
          figure(
              "The encoding of each position",
              [cells({x: "channel", y: "position", label: "value", low: -1, high: 1}, rows.rows, numbers)].map(
                  (panel) => ({...panel, square: false}))),
          moving);
    const alike = await asked[1];
    if (alike)
      this.similarity.update(
          figure("How alike two positions are", [cells({x: "position", y: "position", label: "cosine similarity"}, alike.matrix, numbers, numbers)]), moving);
    const operator = await asked[2];
    if (operator) this.drawOperator(operator, moving);
    if (moving) return;
    await this.drawProperties(sinusoidal);
    const grown =
        await app.ask(shell, "sinusoid-grown", {method: "sinusoid.hierarchical", rows: 10, width: sinusoidal.width, alpha: state.get("alpha")});
    if (grown)
      this.grown.update(
          figure(
              "A table of 10 rows grown to 100: how alike its positions are",
              [cells({x: "position", y: "position", label: "cosine similarity"}, grown.similarity)]),
          moving);
  }

  /** @param {any} operator @param {boolean} moving */
  drawOperator(operator, moving) {
    const distance = Math.round(this.app.state.get("shift"));
    this.operator.update(
        figure(
            say("shift_title", {distance}), [cells({x: "channel before", y: "channel after", label: "factor", low: -1, high: 1}, operator.matrix)]),
        moving);
    if (!moving) this.defect.replaceChildren(facts([[say("shift_defect"), number(operator.largest_difference)]]));
  }

  /** @param {Record<string, unknown>} sinusoidal */
  async drawProperties(sinusoidal) {
    const answers = await Promise.all(
        ENCODINGS.map((encoding) => this.app.ask(this.shell, `measure-${encoding}`, {method: "sinusoid.measure", encoding, sinusoidal, length: 64})));
    if (answers.some((answer) => !answer)) return;
    this.propertiesTitle.textContent = say("properties");
    this.properties.setAttribute("aria-label", say("properties"));
    const yes = (/** @type {boolean} */ is) => (is ? say("yes") : say("no"));
    const head = ["encoding", "unique", "smallest_gap", "bounded", "independent_of_length", "relative", "defined_beyond"];
    const rows = answers.map(
        (one) => make(
            "tr", {}, make("th", {scope: "row"}, one.name),
            ...[yes(one.unique), number(one.smallest_gap), yes(one.bounded), yes(one.independent_of_length), yes(one.relative),
                yes(one.defined_beyond)]
                .map((text) => make("td", {}, text))));
    this.properties.replaceChildren(make(
        "table", {}, make("thead", {}, make("tr", {}, ...head.map((key) => make("th", {scope: "col"}, say(`property_${key}`))))),
        make("tbody", {}, ...rows)));
  }
}

export const added = {
  id: "added",
  build: (/** @type {App} */ app) => new Added(app)
};
