// SPDX-License-Identifier: Apache-2.0
// One sentence about a figure, made from its numbers.
import {number} from "../numbers.js";
import {figureWords, say} from "../words.js";

/** @typedef {import("../types").Figure} Figure */

/**
 * Where the least and the greatest are; what has no value is passed over.
 * @param {import("../types").Numbers} values
 */
export function extremes(values) {
  let [low, high] = [-1, -1];
  for (let i = 0; i < values.length; i += 1) {
    if (!Number.isFinite(values[i]) || values[i] === null) continue;
    if (low < 0 || values[i] < values[low]) low = i;
    if (high < 0 || values[i] > values[high]) high = i;
  }
  return {low, high};
}

/** @param {import("../types").Curve} curve @param {string} what of the x axis */
function curveWords(curve, what) {
  const {low, high} = extremes(curve.y);
  if (low < 0) return "";
  const at = {low: number(curve.y[low]), lowAt: number(curve.x[low]), high: number(curve.y[high]), highAt: number(curve.x[high]), what};
  return `${curve.name ? `${figureWords(curve.name)}${say("colon")}` : ""}${say(curve.y[low] === curve.y[high] ? "sum_flat" : "sum_curve", at)}`;
}

/**
 * From where to where the cells of one of several panels go.
 * @param {import("../types").Panel} panel
 */
function rangeWords(panel) {
  const values = panel.cells?.values || [];
  const {low, high} = extremes(values);
  return `${figureWords(panel.title)}${say("colon")}${say("sum_range", {low: number(values[low]), high: number(values[high])})}`;
}

/**
 * Of curves the least and the greatest, of cells where these are.
 * @param {Figure} figure
 */
export function summarise(figure) {
  const panel = figure.panels[0];
  if (!panel) return "";
  if (panel.cells && figure.panels.length > 1) return `${figure.panels.map(rangeWords).join(say("semicolon"))}${say("stop")}`;
  if (panel.cells) {
    const {values, rows, columns, label} = panel.cells;
    const {low, high} = extremes(values);
    if (low < 0) return say("sum_nothing");
    const place = (/** @type {number} */ i) =>
        ({row: figureWords(rows[Math.floor(i / columns.length)]), column: figureWords(columns[i % columns.length])});
    const [least, most] = [place(low), place(high)];
    const words = {
      low: number(values[low]),
      lowRow: least.row,
      lowColumn: least.column,
      high: number(values[high]),
      highRow: most.row,
      highColumn: most.column
    };
    return say("sum_cells", {...words, what: figureWords(label), x: figureWords(panel.x.label), y: figureWords(panel.y.label)});
  }
  const all = (panel.curves || []).map((curve) => curveWords(curve, figureWords(panel.x.label))).filter(Boolean);
  const few = all.slice(0, 4).join(say("semicolon"));
  return few ? `${few}${all.length > 4 ? say("sum_more", {more: all.length - 4}) : say("stop")}` : say("sum_nothing");
}
