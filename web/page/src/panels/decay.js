// SPDX-License-Identifier: Apache-2.0
// Decay: what two tokens score by their distance, of several specs; what the softmax makes of it; the four terms of a score with an added encoding.
import {MOVING_POINTS} from "../app.js";
import {Card} from "../chart/card.js";
import {choice, Slider} from "../controls.js";
import {axis, cells, curve, figure} from "../figures.js";
import {number, whole} from "../numbers.js";
import {formula, Shell} from "../shell.js";
import {say} from "../words.js";

/** @typedef {import("../app.js").App} App */

const TERMS = /** @type {const} */ (["content_content", "content_position", "position_content", "position_position"]);

class Decay {
  /** @param {App} app */
  constructor(app) {
    this.app = app;
    this.shell = new Shell("decay");
    /** of the weights that are drawn */
    this.context_ = 0;
    const changed = (/** @type {boolean} */ moving) => void this.refresh(moving);
    this.distance = new Slider(app, {key: "distance", label: "farthest", low: 16, high: 1 << 20, log: true}, changed);
    this.base = new Slider(app, {key: "base", label: "base", low: 100, high: 100_000_000, log: true}, changed);
    this.overlay = choice(
        app, {
          key: "overlay",
          label: "overlay",
          values: () => [["", say("none")], ...app.presets.map(({name}) => /** @type {[string, string]} */ ([name, name]))]
        },
        () => changed(false));
    this.context = new Slider(app, {key: "context", label: "context", low: 2, high: 4096, log: true}, changed);
    this.terms = new Slider(app, {key: "terms", label: "tokens", low: 2, high: 96}, changed);
    this.sums = new Card("decay", {summary: () => this.sentence || ""});
    this.weights = new Card("weights");
    this.termsCard = new Card("score-terms");
    this.shell.control(this.distance, this.base, this.overlay);
    this.shell.body.append(
        this.sums.element, formula("decay"), this.context.element, this.weights.element, this.terms.element, this.termsCard.element,
        formula("four_terms"));
    this.shell.shown.push(this.context, this.terms);
    this.element = this.shell.element;
  }

  words() { this.shell.words(); }

  specs() {
    const {app} = this;
    const mine = {name: app.model?.name || "", spec: {...app.spec(), numerics: "exact"}};
    const {head_dim, rotary_width} = app.spec();
    const plain = {spec: {head_dim, ...(rotary_width ? {rotary_width} : {}), base: app.state.get("base")}};
    const other = app.presets.find(({name}) => name === app.state.get("overlay"));
    return [mine, plain, ...(other && other.name !== mine.name ? [{name: other.name, spec: {...other.spec, numerics: "exact"}}] : [])];
  }

  /** @param {boolean} moving */
  async refresh(moving) {
    const {app, shell} = this;
    const specs = this.specs();
    const last = Math.round(app.state.get("distance"));
    const step = Math.max(1, Math.ceil(last / (moving ? MOVING_POINTS / 2 : 1024)));
    const context = Math.round(app.state.get("context"));
    const distances = {first: 0, last: context - 1, points: moving ? MOVING_POINTS : 1024};
    const asked = [
      app.askNew(moving, shell, "decay-sums", {method: "figure.decay", specs, distances: `0:${last + 1}:${step}`}),
      // The sum over a context takes long: with another base it is drawn when the thumb is let go.
      moving && context === this.context_ ? null : app.askNew(moving, shell, "decay-weights", {method: "decay", specs, distances, context}),
      app.askNew(moving, shell, "decay-terms", {method: "score_terms", sinusoidal: {width: 64}, tokens: Math.round(app.state.get("terms")), seed: 1}),
    ];
    this.context_ = context;
    const sums = await asked[0];
    if (sums) this.sums.update(sums.figure, moving);
    const weights = await asked[1];
    if (weights) this.drawWeights(weights, moving);
    const terms = await asked[2];
    if (terms)
      this.termsCard.update(
          figure(
              "The four terms of a score: token + position on either side",
              TERMS.map((name) => cells({title: name, x: "key", y: "query", label: "score"}, terms[name])), 2),
          moving);
  }

  /** @param {any} answer @param {boolean} moving */
  drawWeights(answer, moving) {
    const curves = answer.encodings.map((/** @type {any} */ one) => curve(one.name, answer.distances.data, one.weight.data));
    this.weights.update(
        figure(
            "Attention of the last token by distance, from positions alone",
            [{title: "", x: axis("distance (positions)"), y: axis("weight of the softmax", {log: true}), curves}]),
        moving);
    if (moving) return;
    const [mine] = answer.encodings;
    const first = mine.first_negative;
    this.sentence =
        say(first === null ? "decay_sum_none" : "decay_sum",
            {name: mine.name, most: number(mine.sum.data[0]), first: first === null ? "" : whole(first), context: whole(answer.context)});
    if (this.sums.figure) this.sums.describe(this.sums.figure);
  }
}

export const decay = {
  id: "decay",
  build: (/** @type {App} */ app) => new Decay(app)
};
