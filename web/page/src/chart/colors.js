// SPDX-License-Identifier: Apache-2.0
// Colours of cells: 256 steps whose lightness rises all the way, from one end to the other or from the middle outwards.

/** @typedef {"light" | "dark"} Theme */

/** @type {Record<Theme, {rising: number[][], both: number[][]}>} */
const STOPS = {
  light: {
    rising: [[247, 248, 246], [163, 211, 205], [46, 134, 132], [5, 58, 62]],
    both: [[140, 62, 8], [226, 154, 96], [247, 246, 243], [104, 178, 172], [5, 76, 80]],
  },
  dark: {
    rising: [[24, 30, 33], [22, 78, 80], [46, 152, 146], [190, 248, 238]],
    both: [[255, 196, 140], [176, 98, 40], [28, 33, 37], [34, 122, 118], [168, 244, 234]],
  },
};

/** @param {number[][]} stops @returns {Uint8ClampedArray} (256, rgba) */
function steps(stops) {
  const all = new Uint8ClampedArray(1024);
  for (let i = 0; i < 256; i += 1) {
    const at = (i / 255) * (stops.length - 1);
    const below = Math.min(Math.floor(at), stops.length - 2);
    for (let c = 0; c < 3; c += 1) all[4 * i + c] = stops[below][c] + (at - below) * (stops[below + 1][c] - stops[below][c]);
    all[4 * i + 3] = 255;
  }
  return all;
}

/** @type {Map<string, Uint8ClampedArray>} */
const made = new Map();

/** @param {Theme} theme @param {"rising" | "both"} kind */
export function colorSteps(theme, kind) {
  const key = `${theme} ${kind}`;
  let found = made.get(key);
  if (!found) {
    found = steps(STOPS[theme][kind]);
    made.set(key, found);
  }
  return found;
}

/**
 * The theme that is seen now.
 * @returns {Theme}
 */
export function currentTheme() {
  const chosen = document.documentElement.dataset.theme;
  if (chosen === "light" || chosen === "dark") return chosen;
  return window.matchMedia?.("(prefers-color-scheme: dark)").matches ? "dark" : "light";
}

/** @param {Uint8ClampedArray} all @param {number} step */
export const cssColor = (all, step) => `rgb(${all[4 * step]},${all[4 * step + 1]},${all[4 * step + 2]})`;
