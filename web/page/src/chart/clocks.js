// SPDX-License-Identifier: Apache-2.0
// Clocks in one SVG: a dial for each pair, a hand for each curve. Drawn again, only the hands move.
import {svg} from "../dom.js";

import {stylesOf} from "./plot.js";

/** @typedef {import("../types").Panel} Panel */

const GAP = 12;
const NAME = 16;

export class ClocksPlot {
  constructor() {
    this.dials = svg("g", {});
    this.hands = svg("g", {});
    this.element = svg("svg", {class: "plot clocks"}, this.dials, this.hands);
    this.key = "";
    this.size = 64;
    this.columns = 1;
    this.gap = GAP;
    /** @type {SVGElement[][]} by curve, by clock */
    this.lines = [];
  }

  /** @param {Panel} panel @param {number} width */
  draw(panel, width) {
    const names = panel.clocks || [];
    const curves = panel.curves || [];
    const key = [width, names.join("|"), curves.map((curve) => `${curve.color} ${curve.dashed}`).join("|")].join("/");
    if (key !== this.key) this.layOut(panel, width, key);
    const reach = (panel.circle || 1) * 1.04;
    curves.forEach((curve, c) => {
      for (let i = 0; i < names.length; i += 1) {
        const [x, y] = this.centre(i);
        const line = this.lines[c][i];
        line.setAttribute("x2", (x + (this.size / 2) * (curve.x[i] / reach)).toFixed(1));
        line.setAttribute("y2", (y - (this.size / 2) * (curve.y[i] / reach)).toFixed(1));
      }
    });
  }

  /** @param {Panel} panel @param {number} width @param {string} key */
  layOut(panel, width, key) {
    const names = panel.clocks || [];
    this.key = key;
    const few = names.length <= 12;
    this.size = Math.min(names.length <= 1 ? 280 : few ? (width < 500 ? 84 : 104) : width < 500 ? 42 : 54, width - 2);
    this.gap = few ? Math.max(GAP, Math.min(48, width / names.length - this.size)) : GAP;
    this.columns = Math.max(1, Math.min(names.length, Math.floor((width + this.gap) / (this.size + this.gap))));
    const named = names.length > 1;
    const rows = Math.ceil(names.length / this.columns);
    this.left = Math.max(0, (width - this.columns * (this.size + this.gap) + this.gap) / 2);
    this.pitch = this.size + GAP + (named ? NAME : 0);
    this.element.setAttribute("viewBox", `0 0 ${width} ${rows * this.pitch}`);
    this.dials.replaceChildren(
        ...names.flatMap((name, i) => {
          const [x, y] = this.centre(i);
          const text = svg("text", {class: "label", x, y: y + this.size / 2 + 13, "text-anchor": "middle"});
          text.textContent = name;
          const dial = svg("circle", {class: "dial", cx: x, cy: y, r: this.size / 2 - 1});
          const middle = svg("circle", {class: "pin", cx: x, cy: y, r: this.size > 120 ? 3 : 1.5});
          return named ? [dial, middle, text] : [dial, middle];
        }),
    );
    const styles = stylesOf(panel.curves || []);
    this.lines = (panel.curves || []).map((curve, c) => {
      const {color, dash} = styles[c];
      return names.map((_, i) => {
        const [x, y] = this.centre(i);
        return svg("line", {
          class: `hand c${color}${this.size > 120 ? " large" : ""}${curve.dashed ? " over" : ""}`,
          x1: x,
          y1: y,
          x2: x,
          y2: y,
          "stroke-dasharray": dash
        });
      });
    });
    this.hands.replaceChildren(...this.lines.flat());
  }

  /** @param {number} index @returns {[number, number]} */
  centre(index) {
    const column = index % this.columns;
    const row = Math.floor(index / this.columns);
    return [(this.left || 0) + column * (this.size + this.gap) + this.size / 2, row * (this.pitch || 0) + this.size / 2 + 1];
  }

  /**
   * The clock at a place of the picture, -1 for none.
   * @param {number} x @param {number} y
   */
  at(x, y) {
    const column = Math.floor((x - (this.left || 0)) / (this.size + this.gap));
    const row = Math.floor(y / (this.pitch || 1));
    const index = row * this.columns + column;
    return column >= 0 && column < this.columns && index >= 0 && index < (this.lines[0]?.length || 0) ? index : -1;
  }

  /** @param {number} index */
  mark(index) { this.dials.querySelectorAll("circle.dial").forEach((dial, i) => dial.classList.toggle("marked", i === index)); }

  /**
   * The clock that was picked.
   * @param {number} index
   */
  choose(index) { this.dials.querySelectorAll("circle.dial").forEach((dial, i) => dial.classList.toggle("chosen", i === index)); }
}
