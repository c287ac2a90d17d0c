// SPDX-License-Identifier: Apache-2.0
// Figures of what the core answers: numbers put on axes, none computed.

/** @typedef {import("./types").Figure} Figure */
/** @typedef {import("./types").Panel} Panel */
/** @typedef {import("./types").Curve} Curve */
/** @typedef {import("./types").Block} Block */
/** @typedef {import("./types").Numbers} Numbers */

/** @param {string} title @param {Panel[]} panels @param {number} [columns] @returns {Figure} */
export const figure = (title, panels, columns = 1) => ({title, columns, legend: [], panels});

/** @param {string} label @param {Partial<import("./types").Axis>} [more] @returns {import("./types").Axis} */
export const axis = (label, more = {}) => ({label, log: false, ...more});

/** @param {string} name @param {Numbers} x @param {Numbers} y @param {Partial<Curve>} [more] @returns {Curve} */
export const curve = (name, x, y, more = {}) => ({name, x, y, mark: "line", ...more});

/**
 * 0, 1, 2, ...
 * @param {number} length
 */
export const counting = (length) => Array.from({length}, (_, i) => i);

/** @param {Numbers} numbers */
export const names = (numbers) => Array.from(numbers, (value) => String(value));

/**
 * A block of (rows, columns) as cells.
 * @param {{title?: string, x: string, y: string, label: string, low?: number, high?: number}} words
 * @param {Block} block @param {string[]} [rows] @param {string[]} [columns] their names; counted where not given
 * @returns {Panel}
 */
export function cells({title = "", x, y, label, low, high}, block, rows, columns) {
  const [height, width] = block.shape;
  return {
    title,
    x: axis(x),
    y: axis(y),
    square: true,
    cells: {label, rows: rows || names(counting(height)), columns: columns || names(counting(width)), values: block.data, low, high},
  };
}

/**
 * One row of a block of (rows, columns).
 * @param {Block} block @param {number} row
 */
export function rowOf(block, row) {
  const width = block.shape[block.shape.length - 1];
  return block.data.subarray(row * width, (row + 1) * width);
}
