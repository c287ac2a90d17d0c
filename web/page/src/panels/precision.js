// SPDX-License-Identifier: Apache-2.0
// Precision: how far each engine's cosines and sines are from the truth by position, which pairs break first, and what that does to scores.
import {MOVING_POINTS} from "../app.js";
import {Card} from "../chart/card.js";
import {choice, Slider} from "../controls.js";
import {make} from "../dom.js";
import {axis, counting, curve, figure} from "../figures.js";
import {number, whole} from "../numbers.js";
import {facts, formula, Shell} from "../shell.js";
import {say} from "../words.js";

import {FAR} from "./start.js";

/** @typedef {import("../app.js").App} App */

const MARKS = /** @type {const} */ ({exact: {color: 0}, hf: {color: 1}, vllm: {color: 2}, ggml: {color: 3}});
const NAMES =
    /** @type {Record<string, string>} */ ({exact: "exact (this library)", hf: "hf (Hugging Face)", vllm: "vllm", ggml: "ggml (llama.cpp)"});

class Precision {
  /** @param {App} app */
  constructor(app) {
    this.app = app;
    this.shell = new Shell("precision");
    const changed = (/** @type {boolean} */ moving) => void this.refresh(moving);
    this.at = new Slider(app, {key: "error_at", label: "position", low: 1, high: FAR, log: true}, changed);
    this.dtype = choice(app, {key: "dtype", label: "dtype", values: () => ["f32", "bf16"].map((name) => [name, name])}, () => changed(false));
    this.distance = new Slider(app, {key: "error_distance", label: "distance", low: 0, high: 4096, log: true}, changed);
    this.errors = new Card("error");
    this.pairs = new Card("error-pairs", {summary: () => this.pairsWords || ""});
    this.report = new Card("error-dtypes");
    this.checkTitle = make("h3", {});
    this.check = make("div", {});
    this.shell.control(this.at, this.distance, this.dtype);
    this.shell.body.append(
        this.pairs.element, this.errors.element, formula("float_angle"), this.report.element,
        make("section", {class: "card", "data-facts": "distance-check"}, this.checkTitle, this.check));
    this.element = this.shell.element;
  }

  words() { this.shell.words(); }

  /** @param {boolean} moving */
  async refresh(moving) {
    const {app, shell} = this;
    const spec = {...app.spec(), numerics: "exact"};
    const position = Math.round(app.state.get("error_at"));
    const pairs = await app.ask(shell, "error-pairs", {method: "precision.pairs", spec, positions: [position]});
    if (pairs) this.drawPairs(pairs, position, moving);
    if (moving) return;
    const [errors, report, check] = await Promise.all([
      app.ask(shell, "error", {method: "figure.error", spec}),
      app.ask(shell, "error-report", {
        method: "precision.report",
        spec,
        positions: {first: 1, last: FAR, points: moving ? MOVING_POINTS / 8 : 40, log: true},
        distance: Math.round(app.state.get("error_distance"))
      }),
      app.ask(shell, "error-check", {method: "precision.distance", spec, dtype: app.state.get("dtype"), far_position: position}),
    ]);
    if (errors) this.errors.update(errors.figure);
    if (report) this.drawReport(report);
    if (check) this.drawCheck(check, position);
  }

  /** @param {any} answer @param {number} position @param {boolean} moving */
  drawPairs(answer, position, moving) {
    const x = counting(answer.pairs);
    const curves = answer.profiles.filter((/** @type {any} */ one) => one.numerics in MARKS)
                       .map(
                           (/** @type {any} */ one) => curve(
                               NAMES[one.numerics], x, one.errors.data,
                               {mark: one.numerics === "hf" ? "line and points" : "points", ...MARKS[/** @type {keyof MARKS} */ (one.numerics)]}));
    const hf = answer.profiles.find((/** @type {any} */ one) => one.numerics === "hf");
    if (!moving && hf) {
      const worst = hf.errors.data.reduce(
          (/** @type {number} */ best, /** @type {number} */ value, /** @type {number} */ i) => (value > hf.errors.data[best] ? i : best), 0);
      const over = Array.from(hf.errors.data).filter((value) => Number(value) > 0.001).length;
      this.pairsWords = say("error_pairs_sum", {position: whole(position), worst, error: number(hf.errors.data[worst]), over, pairs: answer.pairs});
    } else if (!moving)
      this.pairsWords = "";
    this.pairs.update(
        figure(
            "Error of each pair at the position",
            [{title: "", x: axis("pair"), y: axis("error of its cosine or sine", {log: true, low: 1e-12, high: 2}), curves}]),
        moving);
  }

  /** @param {any} answer */
  drawReport(answer) {
    const dtype = this.app.state.get("dtype");
    const curves = answer.reports
                       .filter((/** @type {any} */ one) => one.dtype === dtype && one.numerics in MARKS)  // hf_float32 has the tables of hf
                       .map(
                           (/** @type {any} */ one) => curve(
                               NAMES[one.numerics], answer.positions.data, one.score.data,
                               {...MARKS[/** @type {keyof MARKS} */ (one.numerics)], mark: one.numerics === "vllm" ? "points" : "line and points"}));
    this.report.update(figure(
        say("report_title", {dtype, distance: whole(answer.distance)}),
        [{title: "", x: axis("position", {log: true}), y: axis("error of the score", {log: true}), curves}]));
  }

  /** @param {any} check @param {number} position */
  drawCheck(check, position) {
    this.checkTitle.textContent = say("check_title", {position: whole(position)});
    this.check.replaceChildren(
        facts([
          [say("check_exact"), number(check.exact_difference)],
          [say("check_float32"), number(check.float32_difference)],
          [say("check_rounding"), number(check.rounding)],
          [say("check_scores"), whole(check.scores)],
        ]),
    );
  }
}

export const precision = {
  id: "precision",
  build: (/** @type {App} */ app) => new Precision(app)
};
