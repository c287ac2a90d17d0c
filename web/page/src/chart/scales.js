// SPDX-License-Identifier: Apache-2.0
// Scales of a panel: where a number is on paper.
import scaleLinear from "d3-scale/src/linear"; // the whole of d3-scale brings clocks and calendars along
import scaleLog from "d3-scale/src/log";

/** @typedef {import("../types").Axis} Axis */
/** @typedef {import("../types").Panel} Panel */
/** @typedef {import("../types").Numbers} Numbers */
/** @typedef {import("d3-scale").Scale} Scale */

/**
 * Whether an axis can show it.
 * @param {number} value @param {boolean} log
 */
export const shown = (value, log) => Number.isFinite(value) && (!log || value > 0);

/**
 * Least and greatest of what can be shown, or 0 and 1 (1 and 10) where nothing can.
 * @param {Numbers[]} lists @param {boolean} log @returns {[number, number]}
 */
export function extent(lists, log) {
  let low = Infinity;
  let high = -Infinity;
  for (const list of lists) {
    for (let i = 0; i < list.length; i += 1) {
      const value = /** @type {number} */ (list[i]);
      if (!shown(value, log)) continue;
      if (value < low) low = value;
      if (value > high) high = value;
    }
  }
  if (low > high) return log ? [1, 10] : [0, 1];
  if (low === high) return log ? [low / 2, high * 2] : [low - 0.5, high + 0.5];
  return [low, high];
}

/** @param {Axis} axis @param {Numbers[]} lists @param {boolean} nice @returns {Scale} */
function scaleOf(axis, lists, nice) {
  const [low, high] = extent(lists, axis.log);
  const scale = (axis.log ? scaleLog() : scaleLinear()).domain([axis.low ?? low, axis.high ?? high]);
  return nice && axis.low === undefined && axis.high === undefined ? scale.nice() : scale;
}

/** @param {Panel} panel @returns {{x: Scale, y: Scale}} without ranges */
export function scalesOf(panel) {
  const curves = panel.curves || [];
  return {
    x: scaleOf(panel.x, curves.map((curve) => curve.x), false),
    y: scaleOf(panel.y, curves.map((curve) => curve.y), true),
  };
}

/**
 * Ticks that leave each other room: of a logarithmic axis powers of ten alone.
 * @param {Scale} scale @param {boolean} log @param {number} count
 */
export function ticksOf(scale, log, count) {
  const all = scale.ticks(log ? 10 : count);
  if (!log) return all;
  const powers = all.filter((value) => Math.abs(Math.log10(value) - Math.round(Math.log10(value))) < 1e-9);
  if (powers.length < 2) return all.length > count ? all.filter((_, i) => i % Math.ceil(all.length / count) === 0) : all;
  const step = Math.ceil(powers.length / count);
  return powers.filter((_, i) => i % step === 0);
}
