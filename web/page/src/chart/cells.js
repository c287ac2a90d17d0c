// SPDX-License-Identifier: Apache-2.0
// One panel of cells: a canvas of one pixel per cell, stretched, with names beside it and a bar of its colours.
import {make} from "../dom.js";
import {number, tick} from "../numbers.js";
import {figureWords} from "../words.js";

import {colorSteps, cssColor, currentTheme} from "./colors.js";
import {extent} from "./scales.js";

/** @typedef {import("../types").Panel} Panel */
/** @typedef {import("../types").Cells} Cells */

/** @typedef {{low: number, high: number, kind: "rising" | "both", under: boolean, over: boolean}} Range */

/**
 * From the least to the greatest, or as far below 0 as above where both are there; under, over: values lie outside.
 * @param {Cells} cells @returns {Range}
 */
export function rangeOf(cells) {
  const [least, most] = extent([cells.values], false);
  const flat = cells.values[0] === (least + most) / 2;  // every value the same: an extent around it
  const low = cells.low ?? (flat ? Math.min(cells.values[0], 0) : least);
  const high = cells.high ?? (flat ? Math.max(cells.values[0], 0) : most);
  const outside = {under: !flat && least < low, over: !flat && most > high};
  if (low < 0 && high > 0) {
    const reach = Math.max(-low, high);
    return {low: -reach, high: reach, kind: "both", ...outside};
  }
  return {low, high, kind: "rising", ...outside};
}

export class CellsPlot {
  constructor() {
    this.canvas = make("canvas", {});
    this.marker = make("div", {class: "marker", hidden: true});
    this.field = make("div", {class: "field"}, this.canvas, this.marker);
    this.yNames = make("div", {class: "names rows"});
    this.xNames = make("div", {class: "names columns"});
    this.xLabel = make("div", {class: "label x"});
    this.yLabel = make("div", {class: "label y"});
    this.bar = make("div", {class: "bar"});
    this.element = make("div", {class: "cells"}, this.yLabel, this.yNames, this.field, this.xNames, this.xLabel, this.bar);
    this.namesKey = "";
    this.barKey = "";
    /** @type {Panel | null} */
    this.panel = null;
  }

  /** @param {Panel} panel */
  draw(panel) {
    const cells = /** @type {Cells} */ (panel.cells);
    const [rows, columns] = [cells.rows.length, cells.columns.length];
    this.panel = panel;
    this.paint(cells, rows, columns);
    this.field.style.aspectRatio = panel.square === false ? "" : `${columns} / ${rows}`;
    this.field.classList.toggle("flat", panel.square === false);
    const key = [
      rows, columns, cells.rows[0], cells.rows[rows - 1], cells.columns[0], cells.columns[columns - 1], figureWords(panel.x.label),
      figureWords(panel.y.label)
    ].join("|");
    if (key === this.namesKey) return;
    this.namesKey = key;
    this.xLabel.textContent = figureWords(panel.x.label);
    this.yLabel.textContent = figureWords(panel.y.label);
    nameSome(this.yNames, cells.rows, "top");
    nameSome(this.xNames, cells.columns, "left");
  }

  /** @param {Cells} cells @param {number} rows @param {number} columns */
  paint(cells, rows, columns) {
    const range = rangeOf(cells);
    const {low, high} = range;
    const colors = colorSteps(currentTheme(), range.kind);
    if (this.canvas.width !== columns || this.canvas.height !== rows) [this.canvas.width, this.canvas.height] = [columns, rows];
    const context = this.canvas.getContext("2d");
    if (!context) return;
    const image = context.createImageData(columns, rows);
    const factor = high > low ? 255 / (high - low) : 0;
    for (let i = 0; i < rows * columns; i += 1) {
      const value = cells.values[i];
      if (value === null || Number.isNaN(value)) continue;  // nothing there: the ground is seen
      const step = 4 * Math.round(Math.min(255, Math.max(0, (value - low) * factor)));
      for (let c = 0; c < 4; c += 1) image.data[4 * i + c] = colors[step + c];
    }
    context.putImageData(image, 0, 0);
    this.drawBar(cells, range, colors);
  }

  /** @param {Cells} cells @param {Range} range @param {Uint8ClampedArray} colors */
  drawBar(cells, {low, high, under, over}, colors) {
    const key = [low, high, under, over, figureWords(cells.label), currentTheme()].join("|");
    if (key === this.barKey) return;
    this.barKey = key;
    const stops = Array.from({length: 9}, (_, i) => cssColor(colors, Math.round((i * 255) / 8))).join(",");
    const swatch = make("span", {class: "swatch"});
    swatch.style.background = `linear-gradient(90deg,${stops})`;
    const close = Math.max(Math.abs(low), Math.abs(high)) > 50 * (high - low);  // more digits, or both ends read the same
    const words = (/** @type {number} */ value) => (close ? number(value, 7) : tick(Number(value.toPrecision(3))));
    this.bar.replaceChildren(
        make("span", {}, `${under ? "≤ " : ""}${words(low)}`), swatch, make("span", {}, `${over ? "≥ " : ""}${words(high)}`),
        make("span", {class: "what"}, figureWords(cells.label)));
  }

  /**
   * Row and column of a pixel of the field.
   * @param {number} x @param {number} y @returns {[number, number]}
   */
  cellAt(x, y) {
    const cells = /** @type {Cells} */ (this.panel?.cells);
    const box = this.field.getBoundingClientRect();
    const row = Math.floor(((y - box.top) / box.height) * cells.rows.length);
    const column = Math.floor(((x - box.left) / box.width) * cells.columns.length);
    return [Math.min(Math.max(row, 0), cells.rows.length - 1), Math.min(Math.max(column, 0), cells.columns.length - 1)];
  }

  /**
   * Frames a cell; -1: none.
   * @param {number} row @param {number} column
   */
  mark(row, column) {
    const cells = this.panel?.cells;
    this.marker.hidden = row < 0 || !cells;
    if (!cells || row < 0) return;
    Object.assign(this.marker.style, {
      left: `${(100 * column) / cells.columns.length}%`,
      top: `${(100 * row) / cells.rows.length}%`,
      width: `${100 / cells.columns.length}%`,
      height: `${100 / cells.rows.length}%`,
    });
  }
}

/**
 * Some of the names, evenly, each beside its cell.
 * @param {HTMLElement} host @param {string[]} names @param {"top" | "left"} side
 */
function nameSome(host, names, side) {
  const few = names.some((name) => !/^-?[0-9.]+$/.test(name));
  const most = side === "left" ? 8 : few ? 24 : 8;
  const step = niceStep(names.length / most);
  host.classList.toggle("wordy", few);
  host.replaceChildren(
      ...names.flatMap((name, i) => {
        if (i % step !== 0) return [];
        const at = make("span", {}, figureWords(name));
        at.style[side] = `${(100 * (i + 0.5)) / names.length}%`;
        return [at];
      }),
  );
}

/**
 * 1, 2, 5, 10, ...: the first that is not below.
 * @param {number} least
 */
function niceStep(least) {
  for (let ten = 1;; ten *= 10)
    for (const step of [ten, 2 * ten, 5 * ten])
      if (step >= least) return step;
}
