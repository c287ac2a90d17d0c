// SPDX-License-Identifier: Apache-2.0
// Lab: what small models trained with each encoding measured, at lengths that they were trained on and beyond. Results are those of docs/lab/summary.json.
import results from "lab-results";

import {Card} from "../chart/card.js";
import {make, setText} from "../dom.js";
import {axis, curve, figure} from "../figures.js";
import {number} from "../numbers.js";
import {Shell} from "../shell.js";
import {figureWords, say} from "../words.js";

/** @typedef {import("../app.js").App} App */

/**
 * Names in links have no comma inside.
 * @param {string} name
 */
const linked = (name) => name.replaceAll(", ", ": ");

class Lab {
  /** @param {App} app */
  constructor(app) {
    this.app = app;
    this.shell = new Shell("lab");
    this.boxes = make("div", {class: "boxes"});
    this.boxesName = make("legend", {});
    this.curves = new Card("lab", {summary: () => this.sentence()});
    this.parts = new Card("lab-parts");
    this.note = make("p", {class: "note"});
    this.shell.body.append(make("fieldset", {}, this.boxesName, this.boxes), this.curves.element, this.parts.element, this.note);
    this.element = this.shell.element;
  }

  words() { this.shell.words(); }

  chosen() {
    const wanted = this.app.state.get("lab").split(",");
    return results.encodings.filter(({name}) => wanted.includes(linked(name)));
  }

  /** @param {string} name @param {boolean} on */
  choose(name, on) {
    const wanted = this.app.state.get("lab").split(",").filter((one) => one && one !== linked(name));
    this.app.state.set("lab", [...wanted, ...(on ? [linked(name)] : [])].join(","));
    this.draw();
  }

  refresh() {
    const chosen = this.chosen().map(({name}) => name);
    setText(this.boxesName, say("encodings"));
    setText(this.note, say("lab_note"));
    this.boxes.replaceChildren(
        ...results.encodings.map(({name}) => {
          const box = make("input", {type: "checkbox", checked: chosen.includes(name)});
          box.addEventListener("change", () => this.choose(name, box.checked));
          return make("label", {class: "check"}, box, figureWords(name));
        }),
    );
    this.draw();
  }

  draw() {
    const chosen = this.chosen();
    const x = results.lengths;
    const curves = chosen.map(({name, loss}, i) => {
      const there = loss.flatMap((value, at) => (value === null ? [] : [at]));  // a change of rotary is not measured at every length
      return curve(name, there.map((at) => x[at]), there.map((at) => Number(loss[at])), {mark: "line and points", color: i % 6});
    });
    curves.push(curve("floor", x, results.floor, {color: 6, dashed: true}));
    this.curves.update(figure(
        "Loss by length, trained at 1x (nats a token)",
        [{title: "", x: axis("length / trained length", {log: true}), y: axis("loss (nats a token)"), curves}]));
    const measured = results.encodings.filter(({over}) => over);
    const values = Float64Array.from(measured.flatMap(({over}) => results.parts.map((name) => over?.[name] ?? NaN)));
    const cells = {label: "loss over the floor", rows: measured.map(({name}) => name), columns: results.parts, values, low: 0};
    this.parts.update(figure(
        `Loss over the floor at ${results.over_at} times the length, by what is to be found`,
        [{title: "", x: axis("part of the language"), y: axis("encoding"), square: false, cells}]));
  }

  sentence() {
    const last = results.lengths.length - 1;
    const known = this.chosen().filter(({loss}) => loss[last] !== null);
    if (!known.length) return say("sum_nothing");
    const best = known.reduce((a, b) => (Number(b.loss[last]) < Number(a.loss[last]) ? b : a));
    const worst = known.reduce((a, b) => (Number(b.loss[last]) > Number(a.loss[last]) ? b : a));
    return say("lab_sum", {
      times: results.lengths[last],
      best: figureWords(best.name),
      low: number(best.loss[last]),
      worst: figureWords(worst.name),
      high: number(worst.loss[last]),
      floor: number(results.floor[last])
    });
  }
}

export const lab = {
  id: "lab",
  build: (/** @type {App} */ app) => new Lab(app)
};
