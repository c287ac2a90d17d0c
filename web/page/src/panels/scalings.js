// SPDX-License-Identifier: Apache-2.0
// Scalings: every published way to a longer context, on every pair: how much slower it turns, and from where on it shows angles that training never did.
import {Card} from "../chart/card.js";
import {Slider} from "../controls.js";
import {make} from "../dom.js";
import {axis, cells, counting, figure, names} from "../figures.js";
import {number, whole} from "../numbers.js";
import {formula, Shell} from "../shell.js";
import {figureWords, say} from "../words.js";

/** @typedef {import("../app.js").App} App */

class Scalings {
  /** @param {App} app */
  constructor(app) {
    this.app = app;
    this.shell = new Shell("scalings");
    const changed = (/** @type {boolean} */ moving) => void this.refresh(moving);
    this.wanted =
        new Slider(app, {key: "wanted", label: "wanted", low: 1, high: 128, log: false, step: 0.5, words: (times) => say("times", {times})}, changed);
    this.trained = new Slider(app, {key: "trained", label: "trained", low: 0, high: 1 << 20, step: 256}, changed);
    this.ratio = new Card("scaling", {summary: () => this.words_ || ""});
    this.seen = new Card("seen", {summary: () => this.seenWords || ""});
    this.list = make("div", {class: "scroll", tabindex: 0, role: "group"});
    this.listTitle = make("h3", {});
    this.shell.control(this.wanted, this.trained);
    this.shell.body.append(this.ratio.element, this.seen.element, make("section", {class: "card"}, this.listTitle, this.list), formula("scaling"));
    this.element = this.shell.element;
  }

  words() { this.shell.words(); }

  /** @param {boolean} moving */
  async refresh(moving) {
    const {app, shell} = this;
    const spec = this.plainSpec();
    const trained_length = app.trainedLength();
    const wanted_length = Math.max(trained_length, Math.round(trained_length * app.state.get("wanted")));
    const request = {spec, trained_length, wanted_length};
    const [plan, ratio] = await Promise.all([
      app.ask(shell, "scaling-plan", {method: "plan", ...request}),
      moving ? null : app.ask(shell, "scaling-figure", {method: "figure.scaling", ...request}),
    ]);
    if (!plan || (!ratio && !moving)) return;
    this.words_ = this.sentence(plan);
    this.seenWords = say("seen_sum", {
      wanted: whole(wanted_length),
      list: this.possible(plan).map((/** @type {any} */ one) => `${figureWords(one.name)} ${one.unseen_pairs}`).join(say("comma"))
    });
    this.ratio.update(ratio ? ratio.figure : this.quickFigure(plan), moving);
    this.drawSeen(plan, moving);
    if (!moving) this.drawList(plan);
  }

  /** As it was trained: without the scaling that the model has now, which is one of those shown. */
  plainSpec() {
    const {scaling, ...plain} = this.app.spec();
    return scaling?.type === "GivenFrequencies" || scaling?.type === "GivenDirections" ? this.app.spec() : plain;
  }

  /** @param {any} plan */
  possible(plan) { return plan.scalings.filter((/** @type {any} */ one) => !one.error); }

  /**
   * While a thumb moves: the plan's numbers in the figure that is there, which is the core's own, drawn again when it is let go.
   * @param {any} plan @returns {import("../types").Figure}
   */
  quickFigure(plan) {
    const drawn = /** @type {import("../types").Figure} */ (this.ratio.figure);
    const possible = this.possible(plan);
    const curves = (drawn.panels[0].curves || []).map((one, i) => ({...one, y: possible[i]?.ratio.data || one.y}));
    return {...drawn, panels: [{...drawn.panels[0], curves}]};
  }

  /** @param {any} plan */
  sentence(plan) {
    const possible = this.possible(plan);
    const all = possible.filter((/** @type {any} */ one) => one.unseen_pairs === 0).map((/** @type {any} */ one) => one.name);
    return say(all.length ? "scaling_sum" : "scaling_sum_none", {
      wanted: whole(plan.wanted_length),
      unseen: possible[0].unseen_pairs,
      pairs: plan.pairs,
      all: all.join(", "),
      trained: whole(plan.trained_length)
    });
  }

  /**
   * Rows are methods, columns pairs: turns in the wanted length, where none has left what was seen.
   * @param {any} plan @param {boolean} moving
   */
  drawSeen(plan, moving) {
    const possible = this.possible(plan);
    const values = new Float64Array(possible.length * plan.pairs);
    possible.forEach((/** @type {any} */ one, /** @type {number} */ row) => {
      for (let pair = 0; pair < plan.pairs; pair += 1)
        values[row * plan.pairs + pair] = one.unseen_from_of_pair.data[pair] < plan.wanted_length ? 1 : 0;
    });
    const panel = cells(
        {x: "pair", y: "method", label: "0: every angle seen in training, 1: new angles", low: 0, high: 1},
        {shape: [possible.length, plan.pairs], data: values}, possible.map((/** @type {any} */ one) => one.name), names(counting(plan.pairs)));
    this.seen.update(figure("Which pairs show angles that training never did", [{...panel, square: false, y: axis("method")}]), moving);
  }

  /** @param {any} plan */
  drawList(plan) {
    this.listTitle.textContent = say("methods");
    this.list.setAttribute("aria-label", say("methods"));
    const head = ["method", "amplitude", "softmax_scale", "unseen_pairs", "unseen_from", "use"].map((key) => make("th", {scope: "col"}, say(key)));
    const rows = plan.scalings.map((/** @type {any} */ one) => {
      const use = make(
          "button",
          {type: "button", class: "quiet", "aria-label": `${say("use_this")} ${figureWords(one.name)}`, onclick: () => void this.use(one.name, plan)},
          say("use_this"));
      const shown = one.error ? [make("td", {colspan: 5}, one.error)] : [
        number(one.amplitude), number(one.softmax_scale), whole(one.unseen_pairs), one.unseen_from === null ? say("all_seen") : whole(one.unseen_from)
      ].map((text) => make("td", {}, text)).concat(make("td", {}, one.name === "as trained" ? "" : use));
      return make("tr", {"data-method": one.name}, make("th", {scope: "row"}, figureWords(one.name)), ...shown);
    });
    this.list.replaceChildren(make("table", {}, make("thead", {}, make("tr", {}, ...head)), make("tbody", {}, ...rows)));
  }

  /** @param {string} name @param {any} plan */
  async use(name, plan) {
    const answer = await this.app.ask(
        this.shell, "scaling-use",
        {method: "spec.scaled", spec: this.plainSpec(), name, trained_length: plan.trained_length, wanted_length: plan.wanted_length});
    if (!answer) return;
    this.app.changedSpec = answer.spec;
    this.app.refresh(false);
  }
}

export const scalings = {
  id: "scalings",
  build: (/** @type {App} */ app) => new Scalings(app)
};
