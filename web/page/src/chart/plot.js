// SPDX-License-Identifier: Apache-2.0
// One panel of curves as SVG. Drawn again, it changes what has changed: while a thumb moves, that is the paths alone.
import {axisBottom, axisLeft} from "d3-axis";
import {select} from "d3-selection";
import {line} from "d3-shape";

import {freshId, set, svg} from "../dom.js";
import {tick} from "../numbers.js";
import {figureWords} from "../words.js";

import {SHAPES} from "./marks.js";
import {scalesOf, shown, ticksOf} from "./scales.js";


/** @typedef {import("../types").Panel} Panel */
/** @typedef {import("../types").Curve} Curve */
/** @typedef {import("d3-scale").Scale} Scale */

export const COLORS = 7;
/** A pattern for each colour: nobody has to tell colours apart. */
export const DASHES = ["", "7 4", "2 3", "9 3 2 3", "12 4", "4 2 1 2", "1 4"];
const MARGIN = {
  top: 26,
  right: 14,
  bottom: 40,
  left: 52
};

/**
 * Colour, dashes and mark of each curve: where colours come again, the dashes are others.
 * @param {Curve[]} curves
 */
export function stylesOf(curves) {
  /** @type {Set<string>} */
  const used = new Set();
  return curves.map((curve, index) => {
    const color = (curve.color ?? index) % COLORS;
    let pattern = color;
    for (let tries = 1; used.has(`${color} ${pattern}`) && tries < COLORS; tries += 1) pattern = (pattern + 1) % COLORS;
    used.add(`${color} ${pattern}`);
    return styleOf(curve, color, pattern);
  });
}

/** @param {Curve} curve @param {number} color @param {number} pattern */
function styleOf(curve, color, pattern) {
  return {color, dash: curve.dashed ? DASHES[1] : DASHES[pattern], shape: SHAPES[pattern]};
}

/**
 * The path of a line, with gaps where there is nothing to show.
 * @param {Curve} curve @param {Scale} x @param {Scale} y @param {Panel} panel
 */
function pathOf(curve, x, y, panel) {
  const ys = curve.y;
  const xs = curve.x;
  return (
      line()
          .x((_, i) => Math.round(x(xs[i]) * 10) / 10)
          .y((_, i) => Math.round(y(ys[i]) * 10) / 10)
          .defined((_, i) => shown(xs[i], panel.x.log) && shown(ys[i], panel.y.log))(ys) ||
      "");
}

export class Plot {
  constructor() {
    this.grid = svg("g", {class: "grid"});
    this.xAxis = svg("g", {class: "axis"});
    this.yAxis = svg("g", {class: "axis"});
    this.xLabel = svg("text", {class: "label", "text-anchor": "end"});
    this.yLabel = svg("text", {class: "label", x: 0, y: 12});
    const clip = freshId("clip");
    this.frame = svg("rect", {});
    this.clip = svg("clipPath", {id: clip}, this.frame);
    this.curves = svg("g", {class: "curves", "clip-path": `url(#${clip})`});
    this.cursor = svg("g", {class: "cursor"});
    this.element = svg("svg", {class: "plot"}, this.clip, this.grid, this.xAxis, this.yAxis, this.xLabel, this.yLabel, this.curves, this.cursor);
    this.axesKey = "";
    /** @type {{x: Scale, y: Scale, panel: Panel, height: number} | null} */
    this.drawn = null;
  }

  /** @param {Panel} panel @param {number} width @param {number} height */
  draw(panel, width, height) {
    if (panel.circle !== undefined) return this.drawClock(panel, Math.min(width, 180));
    const {x, y} = scalesOf(panel);
    x.range([MARGIN.left, width - MARGIN.right]);
    y.range([height - MARGIN.bottom, MARGIN.top]);
    this.drawn = {x, y, panel, height};
    this.drawAxes(panel, width, height);
    const styles = stylesOf(panel.curves || []);
    this.styles = styles;
    select(this.curves).selectAll("g.curve").data(panel.curves || []).join("g").each(function draw(curve, index) {
      drawCurve(this, curve, styles[index], {x, y, panel});
    });
  }

  /** @param {Panel} panel @param {number} width @param {number} height */
  drawAxes(panel, width, height) {
    const {x, y} = /** @type {{x: Scale, y: Scale}} */ (this.drawn);
    const labels = [figureWords(panel.x.label), figureWords(panel.y.label)];
    const key = JSON.stringify([x.domain(), y.domain(), width, height, labels, panel.x.log, panel.y.log]);
    if (key === this.axesKey) return;
    this.axesKey = key;
    this.element.setAttribute("viewBox", `0 0 ${width} ${height}`);
    const xTicks = ticksOf(x, panel.x.log, Math.max(2, Math.floor(width / 90)));
    const yTicks = ticksOf(y, panel.y.log, Math.max(2, Math.floor(height / 70)));
    this.xAxis.setAttribute("transform", `translate(0,${height - MARGIN.bottom})`);
    this.yAxis.setAttribute("transform", `translate(${MARGIN.left},0)`);
    select(this.xAxis).call(axisBottom(x).tickValues(xTicks).tickFormat(tick).tickSizeOuter(0).tickPadding(6));
    select(this.yAxis).call(axisLeft(y).tickValues(yTicks).tickFormat(tick).tickSize(0).tickPadding(8));
    select(this.grid).selectAll("line").data(yTicks).join("line").each(function draw(value) {
      for (const [name, at] of Object.entries({x1: MARGIN.left, x2: width - MARGIN.right, y1: y(value), y2: y(value)}))
        this.setAttribute(name, String(at));
    });
    // A mark on the edge is seen whole; a curve that leaves its axes is not seen outside.
    set(this.frame, {
      x: MARGIN.left - 6,
      y: MARGIN.top - 6,
      width: Math.max(width - MARGIN.left - MARGIN.right + 12, 0),
      height: Math.max(height - MARGIN.top - MARGIN.bottom + 12, 0)
    });
    this.xLabel.textContent = labels[0];
    this.xLabel.setAttribute("x", String(width - MARGIN.right));
    this.xLabel.setAttribute("y", String(height - 4));
    this.yLabel.textContent = labels[1];
  }

  /**
   * A circle around the origin, hands from it.
   * @param {Panel} panel @param {number} size
   */
  drawClock(panel, size) {
    const reach = /** @type {number} */ (panel.circle) * 1.1;
    const at = (/** @type {number} */ value) => (size / 2) * (1 + value / reach);
    this.element.setAttribute("viewBox", `0 0 ${size} ${size}`);
    set(this.frame, {x: 0, y: 0, width: size, height: size});
    this.grid.replaceChildren(svg("circle", {class: "dial", cx: size / 2, cy: size / 2, r: (size / 2) * (Number(panel.circle) / reach)}));
    const styles = stylesOf(panel.curves || []);
    this.curves.replaceChildren(
        ...(panel.curves || []).map((curve, index) => {
          const {color, dash} = styles[index];
          return svg(
              "line", {class: `hand c${color}`, x1: size / 2, y1: size / 2, x2: at(curve.x[0]), y2: at(-curve.y[0]), "stroke-dasharray": dash});
        }),
    );
  }

  /**
   * The index of the point of the first curve that is nearest to a pixel.
   * @param {number} pixel
   */
  nearest(pixel) {
    const first = this.drawn?.panel.curves?.[0];
    if (!this.drawn || !first) return -1;
    let best = -1;
    let distance = Infinity;
    for (let i = 0; i < first.x.length; i += 1) {
      const off = Math.abs(this.drawn.x(first.x[i]) - pixel);
      if (off < distance) [best, distance] = [i, off];
    }
    return best;
  }

  /**
   * Marks the points of an index; -1: none.
   * @param {number} index
   */
  mark(index) {
    this.cursor.replaceChildren();
    const first = this.drawn?.panel.curves?.[0];
    if (!this.drawn || !first || index < 0 || !shown(first.x[index], this.drawn.panel.x.log)) return;
    const {x, y, panel, height} = this.drawn;
    const at = x(first.x[index]);
    this.cursor.append(svg("line", {x1: at, x2: at, y1: MARGIN.top, y2: height - MARGIN.bottom}));
    (panel.curves || []).forEach((curve, i) => {
      if (curve.x[index] !== first.x[index] || !shown(curve.y[index], panel.y.log)) return;
      this.cursor.append(svg("circle", {class: `c${this.styles?.[i].color}`, cx: at, cy: y(curve.y[index]), r: 4}));
    });
  }
}

/**
 * The path of all marks.
 * @param {Curve} curve @param {string} shape @param {Scale} x @param {Scale} y @param {Panel} panel
 */
function marksOf(curve, shape, x, y, panel) {
  let text = "";
  for (let i = 0; i < curve.x.length; i += 1) {
    if (!shown(curve.x[i], panel.x.log) || !shown(curve.y[i], panel.y.log)) continue;
    text += `M${x(curve.x[i]).toFixed(1)},${y(curve.y[i]).toFixed(1)}${shape}`;
  }
  return text;
}

/**
 * A group's path of a class, if it is wanted.
 * @param {Element} group @param {string} name @param {boolean} wanted
 */
function pathIn(group, name, wanted) {
  const there = group.querySelector(`path.${name}`);
  if (!wanted) there?.remove();
  if (there || !wanted) return wanted ? there : null;
  const path = svg("path", {class: name});
  group.append(path);
  return path;
}

/** @param {Element} group @param {Curve} curve @param {ReturnType<typeof stylesOf>[0]} style @param {{x: Scale, y: Scale, panel: Panel}} place */
function drawCurve(group, curve, style, {x, y, panel}) {
  set(group, {class: `curve c${style.color}`});
  const path = pathIn(group, "line", curve.mark !== "points");
  if (path) set(path, {d: pathOf(curve, x, y, panel), "stroke-dasharray": style.dash});
  const marks = pathIn(group, "mark", curve.mark !== "line");
  if (marks) set(marks, {d: marksOf(curve, style.shape, x, y, panel)});
}
