// SPDX-License-Identifier: Apache-2.0
// Pairs: a clock for every pair at a position, and the rotation of one pair written four ways.
import {Card} from "../chart/card.js";
import {ClocksPlot} from "../chart/clocks.js";
import {choice, Slider} from "../controls.js";
import {make} from "../dom.js";
import {axis, cells, counting, curve, figure} from "../figures.js";
import {number, whole} from "../numbers.js";
import {Player} from "../player.js";
import {formula, Shell} from "../shell.js";
import {say} from "../words.js";

import {FAR} from "./start.js";

/** @typedef {import("../app.js").App} App */

/** Points to turn, all of length 1. */
const POINTS = ["0.6,0.8", "1,0", "0,1", "-0.8,0.6"];

/** @param {number[]} values */
const listed = (values) => `(${values.map((value) => number(value)).join(", ")})`;

class Pairs {
  /** @param {App} app */
  constructor(app) {
    this.app = app;
    this.shell = new Shell("pairs");
    this.position = new Slider(app, {key: "position", label: "position", low: 0, high: FAR, log: true}, (moving) => void this.refresh(moving));
    this.player = new Player(app, this.position, "position");
    this.pair = choice(
        app, {key: "pair", label: "pair", values: () => counting(this.count || 64).map((i) => [String(i), String(i)])},
        () => void this.refresh(false));
    this.point = choice(
        app, {key: "point", label: "point", values: () => POINTS.map((point) => [point, `(${point.replace(",", ", ")})`])},
        () => void this.refresh(false));
    this.clocks = new Card("clocks", {summary: (drawn) => this.clocksWords(drawn), pick: (_, __, clock) => this.pick(clock)});
    this.waves = new Card("wavelengths");
    this.matrix = new Card("rotation-matrix", {level: "h4"});
    this.forms = make("div", {class: "forms", "aria-live": "off"});
    this.shell.control(this.position, this.player);
    this.formControls = make("div", {class: "controls"}, this.pair.element, this.point.element);
    this.formsTitle = make("h3", {});
    this.shell.body.append(
        this.clocks.element, make("section", {class: "card"}, this.formsTitle, this.formControls, this.forms, this.matrix.element),
        this.waves.element);
    this.shell.shown.push(this.pair, this.point);
    this.element = this.shell.element;
  }

  words() { this.shell.words(); }

  /** @param {boolean} on */
  shown(on) {
    if (!on) this.player.stop();
  }

  /** @param {number} clock */
  pick(clock) {
    this.app.state.set("pair", clock);
    this.pair.show();
    void this.refresh(false);
  }

  /** @param {boolean} moving */
  async refresh(moving) {
    const {app, shell} = this;
    const spec = app.spec();
    const position = app.state.get("position");
    const pair = Math.max(0, Math.min(app.state.get("pair"), (this.count || 1e9) - 1));
    const point = (POINTS.includes(app.state.get("point")) ? app.state.get("point") : POINTS[0]).split(",").map(Number);
    const [table, forms] = await Promise.all([
      app.ask(shell, "pairs-clocks", {method: "pairs.cos_sin", spec, positions: [position]}),
      app.ask(shell, "pairs-forms", {method: "pairs.forms", spec, pair, position, point}),
    ]);
    if (table) this.drawClocks(table, moving);
    if (forms) this.drawForms(forms, pair);
    if (moving) return;
    const [pairs, matrix] = await Promise.all([
      app.ask(shell, "pairs", {method: "pairs", spec, length: app.trainedLength()}),
      app.ask(shell, "pairs-matrix", {method: "pairs.matrix", spec, position}),
    ]);
    if (pairs) this.drawWaves(pairs);
    if (matrix)
      this.matrix.update(figure(
          say("matrix_title", {position: whole(position)}),
          [cells({x: "channel of the input", y: "channel of the result", label: "factor", low: -1, high: 1}, matrix.matrix)]));
  }

  /** @param {any} table @param {boolean} moving */
  drawClocks(table, moving) {
    const count = table.cos.shape[1];
    const hands = [curve("exact", table.cos.data, table.sin.data, {mark: "arrows", color: 0})];
    const circle = Math.max(1, ...table.cos.data.map(Math.abs), ...table.sin.data.map(Math.abs));
    this.clocks.update(
        figure(
            "Where the position turns every pair to",
            [{title: "", x: axis("cos"), y: axis("sin"), clocks: counting(count).map(String), circle, curves: hands}]),
        moving);
    const plot = this.clocks.places[0].plot;
    if (plot instanceof ClocksPlot && !moving) plot.choose(this.app.state.get("pair"));
    if (count === this.count) return;
    this.count = count;
    this.pair.show();
  }

  /** @param {import("../types").Figure} drawn */
  clocksWords(drawn) {
    const [hands] = drawn.panels[0].curves || [];
    const near = Array.from(hands.x).filter((cos) => cos > 0.99).length;
    return say("clocks_sum", {pairs: hands.x.length, position: whole(this.app.state.get("position")), near});
  }

  /**
   * The same turn four ways: what they give is the same point.
   * @param {any} forms @param {number} pair
   */
  drawForms(forms, pair) {
    const {matrix, complex, elementwise, apply} = forms;
    this.formsTitle.textContent = say("forms_title", {pair, a: forms.channels[0], b: forms.channels[1]});
    const ways = [
      [
        "form_matrix", "rotation_matrix",
        `[${matrix.values.map((/** @type {number[]} */ row) => row.map((value) => number(value)).join("  ")).join(" ; ")}]`, matrix.point
      ],
      ["form_complex", "rotation_complex", `${number(complex.factor[0])} ${complex.factor[1] < 0 ? "−" : "+"} ${number(Math.abs(complex.factor[1]))} i`, complex.point],
      ["form_elementwise", "rotation_elementwise", `cos ${listed(elementwise.cos)}, sin ${listed(elementwise.sin)}`, elementwise.point],
      ["form_apply", "", say("form_apply_words"), apply.point],
    ];
    if (this.forms.childElementCount !== ways.length) {
      this.forms.replaceChildren(...ways.map(
          ([, name]) => make(
              "div", {class: "form"}, make("h4", {}), name ? formula(String(name)) : make("div", {class: "formula"}), make("p", {class: "numbers"}),
              make("p", {class: "point"}))));
    }
    ways.forEach(([name, , numbers, point], i) => {
      const [title, , given, result] = this.forms.children[i].children;
      title.textContent = say(String(name));
      given.textContent = String(numbers);
      result.textContent = `→ ${listed(/** @type {number[]} */ (point))}`;
      result.setAttribute("data-point", JSON.stringify(point));
    });
  }

  /** @param {any} pairs */
  drawWaves(pairs) {
    const length = this.app.trainedLength();
    const x = counting(pairs.pairs);
    const trained = curve(say("trained_length"), [0, pairs.pairs - 1], [length, length], {color: 6, dashed: true});
    this.waves.update(
        figure("Positions in a full turn of each pair", [{
                 title: "",
                 x: axis("pair"),
                 y: axis("positions in a turn", {log: true}),
                 curves: [curve("wavelength", x, pairs.wavelengths.data, {mark: "points", color: 0}), trained]
               }]),
    );
  }
}

export const pairs = {
  id: "pairs",
  build: (/** @type {App} */ app) => new Pairs(app)
};
