// SPDX-License-Identifier: Apache-2.0
// The page's language: words by key from one table, and the words of figures, which the library writes in English.
import {FIGURES, PATTERNS, WORDS} from "./words_table.js";

/** @typedef {"en" | "zh"} Language */

/** @type {Language} */
let current = "en";

export const language = () => current;

/** @param {string} wanted */
export function setLanguage(wanted) { current = wanted === "zh" ? "zh" : "en"; }

/** @param {string} key @param {Record<string, unknown>} [values] for the {names} in it */
export function say(key, values = {}) {
  const entry = WORDS[key];
  if (!entry) return key;
  return entry[current === "zh" ? 1 : 0].replace(/\{(\w+)\}/g, (whole, name) => (name in values ? String(values[name]) : whole));
}

/**
 * Words of a figure in the page's language; what is not known stays as it is.
 * @param {string} text
 */
export function figureWords(text) {
  if (current === "en" || !text) return text;
  if (FIGURES[text]) return FIGURES[text];
  for (const [pattern, words] of PATTERNS)
    if (pattern.test(text)) return text.replace(pattern, words);
  return text;
}
