// SPDX-License-Identifier: Apache-2.0
// Marks of points. Those of a curve are one path: an element for each took the main thread longer than a frame has while a thumb moves.
import {symbol, symbols} from "d3-shape";

const TYPES = symbols.slice(0, 6);

const rounded = (/** @type {number} */ value) => Math.round(value * 1000) / 1000;

/** What a symbol draws, as commands relative to wherever the path is. */
class Relative {
  constructor() {
    this.text = "";
    this.at = [0, 0];
    this.begun = [0, 0];
  }

  /** @param {string} command @param {number} x @param {number} y */
  step(command, x, y) {
    const [dx, dy] = [rounded(x - this.at[0]), rounded(y - this.at[1])];
    this.text += `${command}${dx},${dy}`;
    this.at = [this.at[0] + dx, this.at[1] + dy];  // of what is written: rounded steps do not add up to an open shape
  }

  /** @param {number} x @param {number} y */
  moveTo(x, y) {
    this.step("m", x, y);
    this.begun = this.at;
  }

  /** @param {number} x @param {number} y */
  lineTo(x, y) { this.step("l", x, y); }

  /** @param {number} x @param {number} y @param {number} width @param {number} height */
  rect(x, y, width, height) {
    this.moveTo(x, y);
    this.lineTo(x + width, y);
    this.lineTo(x + width, y + height);
    this.lineTo(x, y + height);
    this.closePath();
  }

  /**
   * A whole circle, from its right end on, where symbols have moved to.
   * @param {number} x @param {number} y @param {number} radius
   */
  arc(x, y, radius) {
    const round = `a${rounded(radius)},${rounded(radius)},0,1,1,`;
    for (const end of [x - radius, x + radius]) this.step(round, end, y);
  }

  closePath() {
    this.text += "z";
    this.at = this.begun;
  }
}

/** @param {object} type @param {number} size its area */
function shapeOf(type, size) {
  const drawn = new Relative();
  symbol().type(type).size(size).context(drawn)();
  return drawn.text;
}

/** A shape for each pattern; the last, a large dot, is for a single point. */
export const SHAPES = [...TYPES.map((type) => shapeOf(type, 34)), shapeOf(TYPES[0], 70)];
