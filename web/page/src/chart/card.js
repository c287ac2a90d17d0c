// SPDX-License-Identifier: Apache-2.0
// A figure on the page: its picture, one sentence about it, a legend, what is under the pointer, a table of its data, and files of it.
import {download, freshId, make, setText, svg} from "../dom.js";
import {number} from "../numbers.js";
import {pictured, timed} from "../timing.js";
import {figureWords, say} from "../words.js";

import {CellsPlot} from "./cells.js";
import {ClocksPlot} from "./clocks.js";
import {svgOf} from "./export.js";
import {Plot, stylesOf} from "./plot.js";
import {summarise} from "./summary.js";
import {csvOf, tablesOf} from "./table.js";


/** @typedef {import("../types").Figure} Figure */
/** @typedef {import("../types").Panel} Panel */

const MOST_CELLS = 2000;  // of the table on the page: browsers lay tables out as a whole

/**
 * Every figure that is on the page, by its name.
 * @type {Map<string, Card>}
 */
export const cards = new Map();

/** @param {string} what @param {() => void} onclick */
const toolButton = (what, onclick) => make("button", {type: "button", class: "quiet", onclick}, what);

export class Card {
  /** @param {string} name @param {{summary?: (figure: Figure) => string, ratio?: number, pick?: (panel: number, row: number, column: number) => void, level?: "h3" | "h4"}} [options] */
  constructor(name, options = {}) {
    this.name = name;
    this.options = options;
    /** @type {Figure | null} */
    this.figure = null;
    /** @type {{host: HTMLElement, plot: Plot | CellsPlot | ClocksPlot, title: HTMLElement}[]} */
    this.places = [];
    this.legendKey = "";
    this.title = make(options.level || "h3", {id: freshId("figure")});
    this.tools = make("div", {class: "tools"});
    this.summary = make("figcaption", {});
    this.plots = make("div", {class: "plots"});
    this.legend = make("ul", {class: "legend"});
    this.readout = make("output", {class: "readout"});
    this.tableName = make("summary", {});
    this.table = make("div", {class: "scroll", tabindex: 0, role: "group"});
    this.details = make("details", {ontoggle: () => this.fillTable()}, this.tableName, this.table);
    this.element = make(
        "figure", {class: "card", "aria-labelledby": this.title.id, "data-figure": name}, make("div", {class: "head"}, this.title, this.tools),
        this.plots, this.readout, make("div", {class: "told"}, this.legend, this.summary, this.details));
    cards.set(name, this);
    if (typeof ResizeObserver !== "undefined") new ResizeObserver(() => this.resized()).observe(this.plots);
    this.width = 0;
  }

  /** @param {Figure} figure @param {boolean} [moving] a thumb is held: the picture alone */
  update(figure, moving = false) {
    timed(() => {
      this.figure = figure;
      this.arrange(figure);
      this.draw();
      if (!moving || !this.summary.textContent) this.describe(figure);
    });
    pictured();
  }

  /** @param {Figure} figure */
  describe(figure) {
    const summary = this.options.summary?.(figure) || summarise(figure);
    setText(this.title, figureWords(figure.title));
    setText(this.summary, summary);
    setText(this.tableName, say("table"));
    this.table.setAttribute("aria-label", `${say("table")}${say("colon")}${figureWords(figure.title)}`);
    if (!this.tools.childElementCount) this.tools.append(toolButton("SVG", () => this.save("svg")), toolButton("CSV", () => this.save("csv")));
    for (const button of this.tools.children) button.setAttribute("aria-label", `${button.textContent} ${say("of")} ${figureWords(figure.title)}`);
    this.places.forEach(
        ({host}, i) =>
            host.setAttribute("aria-label", [figureWords(figure.panels[i].title) || figureWords(figure.title), summary].join(say("colon"))));
    this.drawLegend(figure);
    this.fillTable();
  }

  /**
   * As many places as panels, of the right kind.
   * @param {Figure} figure
   */
  arrange(figure) {
    const fits = this.places.length === figure.panels.length && this.places.every(({plot}, i) => plot instanceof kindOf(figure.panels[i]));
    if (!fits) {
      this.places = figure.panels.map((panel, i) => this.place(panel, i));
      this.plots.replaceChildren(...this.places.map(({host, title}) => make("div", {class: "panel"}, title, host)));
      this.legendKey = "";
      this.summary.textContent = "";
      this.width = 0;
    }
    this.plots.style.setProperty("--columns", String(Math.min(figure.columns, figure.panels.length)));
    this.plots.classList.toggle("many", figure.panels.length > 1);
    const [only] = figure.panels;
    this.element.classList.toggle("beside", figure.panels.length === 1 && (only.cells ? only.square !== false : false));
  }

  /** @param {Panel} panel @param {number} index */
  place(panel, index) {
    const plot = new (kindOf(panel))();
    const host = make("div", {class: "place", tabindex: 0, role: "img"}, plot.element);
    host.addEventListener("pointermove", (event) => this.point(index, event));
    host.addEventListener("pointerleave", () => this.readAt(index, -1, -1));
    host.addEventListener("blur", () => this.readAt(index, -1, -1));
    host.addEventListener("keydown", (event) => this.key(index, event));
    if (this.options.pick) host.addEventListener("click", (event) => this.click(index, event));
    return {host, plot, title: make("h4", {})};
  }

  resized() {
    const width = this.places[0]?.host.clientWidth || 0;
    if (!width || Math.abs(width - this.width) <= 1) return;
    this.width = width;
    timed(() => this.draw());
  }

  draw() {
    if (!this.figure) return;
    // Asking for the width costs a layout: once is enough until it changes, and the observer says so.
    this.width ||= this.places[0]?.host.clientWidth || 0;
    const width = this.width || 640;
    const height = Math.round(Math.min(Math.max(width * (this.options.ratio || 0.5), 200), 420));
    this.figure.panels.forEach((panel, i) => {
      const {plot, title} = this.places[i];
      setText(title, figureWords(panel.title));
      title.hidden = !panel.title;
      plot.draw(panel, width, height);
    });
  }

  /** @param {Figure} figure */
  drawLegend(figure) {
    const curves = figure.panels[0]?.curves || [];
    const names = figure.legend.length ? figure.legend : curves.length > 1 || curves[0]?.name ? curves.map((curve) => curve.name) : [];
    const key = JSON.stringify([names.map(figureWords), curves.map((curve) => [curve.color, curve.mark, curve.dashed])]);
    if (key === this.legendKey) return;
    this.legendKey = key;
    this.legend.hidden = names.length === 0;
    const styles = stylesOf(curves);
    this.legend.replaceChildren(
        ...names.flatMap((name, i) => (name && curves[i] ? [make("li", {}, sample(curves[i], styles[i]), figureWords(name))] : [])));
  }

  fillTable() {
    if (!this.details.open || !this.figure) return;
    this.table.replaceChildren(...tablesOf(this.figure).map(tableElement));
  }

  /** @param {number} index @param {PointerEvent} event */
  point(index, event) {
    const {plot, host} = this.places[index];
    if (plot instanceof CellsPlot) return this.readAt(index, ...plot.cellAt(event.clientX, event.clientY));
    const [x, y] = this.within(host, event);
    return this.readAt(index, 0, plot instanceof ClocksPlot ? plot.at(x, y) : plot.nearest(x));
  }

  /** @param {number} index @param {MouseEvent} event */
  click(index, event) {
    const {plot, host} = this.places[index];
    if (plot instanceof CellsPlot) this.options.pick?.(index, ...plot.cellAt(event.clientX, event.clientY));
    const clock = plot instanceof ClocksPlot ? plot.at(...this.within(host, event)) : -1;
    if (clock >= 0) this.options.pick?.(index, 0, clock);
  }

  /**
   * Where the pointer is, in units of the picture.
   * @param {HTMLElement} host @param {MouseEvent} event @returns {[number, number]}
   */
  within(host, event) {
    const box = host.getBoundingClientRect();
    const factor = (this.width || box.width) / box.width;
    return [(event.clientX - box.left) * factor, (event.clientY - box.top) * factor];
  }

  /**
   * Arrows go from point to point, Enter picks.
   * @param {number} index @param {KeyboardEvent} event
   */
  key(index, event) {
    const step = event.shiftKey ? 10 : 1;
    /** @type {Record<string, [number, number]>} */
    const steps = {ArrowLeft: [0, -step], ArrowRight: [0, step], ArrowUp: [-step, 0], ArrowDown: [step, 0], Home: [0, -1e9], End: [0, 1e9]};
    const panel = this.figure?.panels[index];
    if (!panel) return;
    const at = this.cursor && this.cursor.index === index ? this.cursor : {row: 0, column: -1};
    if (event.key === "Enter" && this.options.pick && at.column >= 0) return this.options.pick(index, at.row, at.column);
    const by = steps[event.key];
    if (!by) return;
    event.preventDefault();
    const rows = panel.cells ? panel.cells.rows.length : 1;
    const columns = panel.cells ? panel.cells.columns.length : panel.curves?.[0]?.x.length || 0;
    this.readAt(index, Math.min(Math.max(at.row + by[0], 0), rows - 1), Math.min(Math.max(at.column + by[1], 0), columns - 1));
  }

  /**
   * Marks a point or cell and says what is there; -1: nothing.
   * @param {number} index @param {number} row @param {number} column
   */
  readAt(index, row, column) {
    const {plot} = this.places[index];
    const panel = this.figure?.panels[index];
    if (!panel) return;
    this.cursor = row < 0 ? undefined : {index, row, column};
    if (plot instanceof CellsPlot) plot.mark(row, column);
    else
      plot.mark(column);
    setText(this.readout, row < 0 || column < 0 ? "" : readWords(panel, row, column));
  }

  /** @param {"svg" | "csv"} kind */
  save(kind) {
    if (!this.figure) return;
    if (kind === "csv") download(`phasor-${this.name}.csv`, "text/csv", csvOf(this.figure));
    else
      download(`phasor-${this.name}.svg`, "image/svg+xml", this.toSvg());
  }

  toSvg() { return this.figure ? svgOf(this.figure, this.places.map(({host}) => host), this.summary.textContent || "") : ""; }
}

/** @param {Panel} panel */
const kindOf = (panel) => (panel.cells ? CellsPlot : panel.clocks ? ClocksPlot : Plot);

/** @param {Panel} panel @param {number} row @param {number} column */
function readWords(panel, row, column) {
  if (panel.clocks) {
    const hands = (panel.curves || []).map((curve) => `${figureWords(curve.name)} cos ${number(curve.x[column])}, sin ${number(curve.y[column])}`);
    return `${say("pair")} ${panel.clocks[column]}${say("colon")}${hands.join(say("semicolon"))}`;
  }
  if (panel.cells) {
    const {rows, columns, values, label} = panel.cells;
    return `${figureWords(panel.y.label)} ${figureWords(rows[row])}, ${figureWords(panel.x.label)} ${figureWords(columns[column])}${say("colon")}${
        figureWords(label)} ${number(values[row * columns.length + column])}`;
  }
  const curves = (panel.curves || []).filter((curve) => column < curve.x.length);
  if (!curves.length) return "";
  return `${figureWords(panel.x.label)} ${number(curves[0].x[column])}${say("colon")}${
      curves.map((curve) => `${figureWords(curve.name)} ${number(curve.y[column])}`.trim()).join(say("comma"))}`;
}

/**
 * A short stroke with the curve's dashes, and its mark.
 * @param {import("../types").Curve} curve @param {ReturnType<typeof stylesOf>[0]} style
 */
function sample(curve, {color, dash, shape}) {
  const parts = curve.mark === "points" ? [] : [svg("path", {class: "line", d: "M1,7H35", "stroke-dasharray": dash})];
  if (curve.mark.includes("points")) parts.push(svg("path", {class: "mark", d: shape, transform: "translate(18,7)"}));
  return svg("svg", {class: `sample c${color}`, viewBox: "0 0 36 14", width: 36, height: 14, "aria-hidden": "true"}, ...parts);
}

/** @param {import("./table.js").Table} table */
function tableElement({caption, head, rows}) {
  const shown = Math.max(8, Math.floor(MOST_CELLS / head.length));
  const cell = (/** @type {string | number} */ value, /** @type {number} */ i) =>
      make(i === 0 ? "th" : "td", i === 0 ? {scope: "row"} : {}, typeof value === "number" ? String(value) : value ?? "–");
  const body = rows.slice(0, shown).map((row) => make("tr", {}, ...row.map(cell)));
  const cut = rows.length > shown ? say("table_cut", {rows: rows.length}) : "";
  return make(
      "table",
      {},
      make("caption", {}, [caption, cut].filter(Boolean).join(" ")),
      make("thead", {}, make("tr", {}, ...head.map((name) => make("th", {scope: "col"}, name)))),
      make("tbody", {}, ...body),
  );
}
