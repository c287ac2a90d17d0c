// SPDX-License-Identifier: Apache-2.0
// Numbers as people read them, in the page's language.
import {language} from "./words.js";

/** @type {Map<string, Intl.NumberFormat>} */
const formats = new Map();

/** @param {string} kind @param {Intl.NumberFormatOptions} options */
function format(kind, options) {
  const key = `${language()} ${kind}`;
  let found = formats.get(key);
  if (!found) {
    found = new Intl.NumberFormat(language() === "zh" ? "zh-CN" : "en", options);
    formats.set(key, found);
  }
  return found;
}

const SUPERSCRIPTS = "⁰¹²³⁴⁵⁶⁷⁸⁹";
/** @param {number} exponent */
function raised(exponent) { return [...String(exponent)].map((c) => (c === "-" ? "⁻" : SUPERSCRIPTS[Number(c)])).join(""); }

/**
 * Four digits that matter: 0.0883, 12.3, 2.9 × 10⁻⁸.
 * @param {number | null | undefined} value @param {number} [digits]
 */
export function number(value, digits = 4) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  if (!Number.isFinite(value)) return value > 0 ? "∞" : "−∞";
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-3 || size >= 1e12)) {
    const [significand, exponent] = value.toExponential(2).split("e");
    return `${Number(significand)}\u00a0×\u00a010${raised(Number(exponent))}`;
  }
  return format(`number ${digits}`, {maximumSignificantDigits: size >= 1000 ? 21 : digits, maximumFractionDigits: 0})
      .format(size >= 1000 ? Math.round(value) : value)
      .replace("-", "−");
}

/**
 * A whole number with its thousands marked.
 * @param {number} value
 */
export function whole(value) { return format("whole", {maximumFractionDigits: 0}).format(value).replace("-", "−"); }

/**
 * Beside an axis: short.
 * @param {number} value
 */
export function tick(value) {
  const size = Math.abs(value);
  if (size !== 0 && size < 1e-3) {
    const exponent = Math.floor(Math.log10(size) + 1e-9);
    const digits = Number((size / 10 ** exponent).toPrecision(2));
    return `${value < 0 ? "−" : ""}${digits === 1 ? "" : `${digits} × `}10${raised(exponent)}`;
  }
  if (size >= 1e4) return format("short", {notation: "compact", maximumSignificantDigits: 3}).format(value).replace("-", "−");
  return format("tick", {maximumSignificantDigits: 3}).format(value).replace("-", "−");
}

/**
 * A percentage.
 * @param {number} share
 */
export function percent(share) { return format("percent", {style: "percent", maximumSignificantDigits: 3}).format(share); }
