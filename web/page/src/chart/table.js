// SPDX-License-Identifier: Apache-2.0
// The data of a figure as tables: what the table below it, its CSV and its summary are made of.
import {figureWords, say} from "../words.js";

/** @typedef {import("../types").Figure} Figure */
/** @typedef {import("../types").Panel} Panel */
/** @typedef {{caption: string, head: string[], rows: (string | number)[][]}} Table */

/** @param {import("../types").Numbers} a @param {import("../types").Numbers} b */
function same(a, b) {
  if (a === b) return true;
  if (a.length !== b.length) return false;
  for (let i = 0; i < a.length; i += 1)
    if (a[i] !== b[i]) return false;
  return true;
}

/** @param {Panel} panel @returns {Table} */
function curvesTable(panel) {
  const curves = panel.curves || [];
  const caption = figureWords(panel.title);
  const name = (/** @type {number} */ i) => figureWords(curves[i].name) || figureWords(panel.y.label) || `y${i}`;
  if (curves.length > 0 && curves.every((curve) => same(curve.x, curves[0].x))) {
    const head = [figureWords(panel.x.label) || "x", ...curves.map((_, i) => name(i))];
    return {caption, head, rows: Array.from(curves[0].x, (x, i) => [x, ...curves.map((curve) => curve.y[i])])};
  }
  const rows = curves.flatMap((curve, i) => Array.from(curve.x, (x, j) => [name(i), x, curve.y[j]]));
  return {caption, head: [say("curve"), figureWords(panel.x.label) || "x", figureWords(panel.y.label) || "y"], rows};
}

/** @param {Panel} panel @returns {Table} */
function clocksTable(panel) {
  const curves = panel.curves || [];
  const head = [say("pair"), ...curves.flatMap(({name}) => [`${figureWords(name)} cos`, `${figureWords(name)} sin`])];
  const rows = (panel.clocks || []).map((name, i) => [name, ...curves.flatMap((curve) => [curve.x[i], curve.y[i]])]);
  return {caption: figureWords(panel.title), head, rows};
}

/** @param {Panel} panel @returns {Table} */
function cellsTable(panel) {
  const cells = /** @type {import("../types").Cells} */ (panel.cells);
  const width = cells.columns.length;
  const corner = `${figureWords(panel.y.label)} \\ ${figureWords(panel.x.label)}`;
  const rows = cells.rows.map((name, r) => [figureWords(name), ...Array.from({length: width}, (_, c) => cells.values[r * width + c])]);
  return {caption: figureWords(panel.title), head: [corner, ...cells.columns.map(figureWords)], rows};
}

/**
 * One per panel.
 * @param {Figure} figure @returns {Table[]}
 */
export function tablesOf(figure) {
  return figure.panels.map((panel) => (panel.cells ? cellsTable(panel) : panel.clocks ? clocksTable(panel) : curvesTable(panel)));
}

/** @param {string | number} value */
function field(value) {
  const text = typeof value === "number" ? String(value) : value ?? "";
  return /[",\n]/.test(text) ? `"${text.replaceAll("\"", "\"\"")}"` : text;
}

/**
 * Every number in full: reading it back gives the same bits.
 * @param {Figure} figure
 */
export function csvOf(figure) {
  return tablesOf(figure)
      .map(({caption, head, rows}) => [...(caption ? [[caption]] : []), head, ...rows].map((row) => row.map(field).join(",")).join("\n"))
      .join("\n\n")
      .concat("\n");
}
