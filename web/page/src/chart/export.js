// SPDX-License-Identifier: Apache-2.0
// A figure as one SVG file that needs nothing else: styles inside, cells as pictures.
import {svg} from "../dom.js";
import {figureWords} from "../words.js";

const WIDTH = 720;
const STYLE =
    `text{font:12px system-ui,sans-serif;fill:#333}.title{font-size:16px;font-weight:600}.grid line{stroke:#e2e2de}.axis path,.axis line{stroke:#999}
.line,.hand{fill:none;stroke:var(--c);stroke-width:1.8}.mark{fill:var(--c)}.dial{fill:none;stroke:#bbb}.cursor{display:none}
.c0{--c:#0b6e6e}.c1{--c:#c2500a}.c2{--c:#5b4bb7}.c3{--c:#a3216b}.c4{--c:#2f7d32}.c5{--c:#8a6100}.c6{--c:#555}`;

/** @param {HTMLElement} host a plot's place on the page @param {number} top @returns {{nodes: SVGElement[], height: number}} */
function plotNodes(host, top) {
  const drawn = host.querySelector("svg.plot");
  if (drawn) {
    const [, , width, height] = (drawn.getAttribute("viewBox") || "0 0 640 360").split(" ").map(Number);
    const copy = /** @type {SVGElement} */ (drawn.cloneNode(true));
    for (const [name, value] of Object.entries({x: 0, y: top, width: WIDTH, height: (height * WIDTH) / width}))
      copy.setAttribute(name, String(value));
    return {nodes: [copy], height: (height * WIDTH) / width};
  }
  const canvas = host.querySelector("canvas");
  if (!canvas) return {nodes: [], height: 0};
  const height = Math.min(WIDTH, (canvas.height * WIDTH) / canvas.width);
  const width = (height * canvas.width) / canvas.height;
  const image =
      svg("image", {x: 0, y: top, width, height, preserveAspectRatio: "none", style: "image-rendering:pixelated", href: canvas.toDataURL()});
  const label = svg("text", {x: 0, y: top + height + 16});
  label.textContent = [".label.x", ".label.y", ".bar"].map((part) => host.querySelector(part)?.textContent).join(" · ");
  return {nodes: [image, label], height: height + 24};
}

/** @param {import("../types").Figure} figure @param {HTMLElement[]} hosts @param {string} summary */
export function svgOf(figure, hosts, summary) {
  const title = svg("text", {class: "title", x: 0, y: 20});
  title.textContent = figureWords(figure.title);
  const described = svg("desc");
  described.textContent = summary;
  const style = svg("style");
  style.textContent = STYLE;
  /** @type {SVGElement[]} */
  const children = [described, style, title];
  let top = 36;
  for (const [i, host] of hosts.entries()) {
    if (figure.panels[i]?.title) {
      const name = svg("text", {x: 0, y: top + 12});
      name.textContent = figureWords(figure.panels[i].title);
      children.push(name);
      top += 20;
    }
    const {nodes, height} = plotNodes(host, top);
    children.push(...nodes);
    top += height + 12;
  }
  const names = (figure.panels[0]?.curves || []).map((curve) => figureWords(curve.name)).filter(Boolean);
  names.forEach((name, i) => {
    const entry = svg("text", {x: 44, y: top + 12 + 18 * i});
    entry.textContent = name;
    const sample =
        svg("line", {class: `line c${(figure.panels[0].curves?.[i].color ?? i) % 7}`, x1: 0, x2: 36, y1: top + 8 + 18 * i, y2: top + 8 + 18 * i});
    children.push(sample, entry);
  });
  const root = svg("svg", {xmlns: "http://www.w3.org/2000/svg", width: WIDTH, height: top + 18 * names.length + 12}, ...children);
  return `<?xml version="1.0" encoding="UTF-8"?>\n${new XMLSerializer().serializeToString(root)}\n`;
}
