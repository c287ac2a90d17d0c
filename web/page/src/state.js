// SPDX-License-Identifier: Apache-2.0
// What the page shows, kept in the URL's fragment: `#v=1&panel=pairs&position=1000000`. Only what differs from the defaults is there.

const VERSION = "1";

/** Every key, with what it is when the fragment does not say. The type of the default is the type of the value. */
export const DEFAULTS = {
  panel: "start",
  lang: "",
  theme: "auto",
  model: "llama3.1",
  config: "",
  group: 0,
  position: 1_000_000,
  pair: 0,
  point: "0.6,0.8",
  wanted: 16,
  trained: 0,
  distance: 2048,
  base: 10_000,
  overlay: "qwen2.5",
  context: 512,
  terms: 24,
  error_at: 1_000_000,
  error_distance: 64,
  scheme: "rope",
  head: 0,
  tokens: 48,
  window: 0,
  span: 16,
  mask: "causal",
  content: "same",
  seed: 1,
  image: 1,
  rows: 6,
  columns: 8,
  frames: 1,
  query: -1,
  width: 64,
  length: 96,
  shift: 8,
  alpha: 0.4,
  event: "shift",
  cached: 96,
  keep: 4,
  discard: 24,
  dtype: "f32",
  left: "llama3.1",
  right: "llama2",
  lab: "none,sinusoidal,shaw,alibi,rotary,rotary: yarn,rotary: rerope",
  take: "python",
};

/** @typedef {Readonly<typeof DEFAULTS>} Values */
/** @typedef {keyof Values} Key */

/**
 * Every value of a fragment; what it does not name, or names in vain, is the default.
 * @param {string} fragment
 * @returns {{values: Values, problem: boolean}} problem: a version that this page does not know
 */
export function parseFragment(fragment) {
  /** @type {Record<string, string | number>} */
  const values = {...DEFAULTS};
  const given = new URLSearchParams(fragment.replace(/^#/, ""));
  const version = given.get("v");
  if (version !== null && version !== VERSION) return {values: {...DEFAULTS}, problem: true};
  for (const [key, fallback] of Object.entries(DEFAULTS)) {
    const text = given.get(key);
    if (text === null) continue;
    if (typeof fallback === "string") values[key] = text;
    else if (text.trim() !== "" && Number.isFinite(Number(text)) && Math.abs(Number(text)) <= 2 ** 53)
      values[key] = Number(text);
  }
  return {values: /** @type {Values} */ (/** @type {unknown} */ (values)), problem: false};
}

/** @param {Values} values */
export function makeFragment(values) {
  const wanted = new URLSearchParams({v: VERSION});
  for (const [key, fallback] of Object.entries(DEFAULTS)) {
    const value = values[/** @type {Key} */ (key)];
    if (value !== fallback) wanted.set(key, String(value));
  }
  return `#${wanted}`;
}

export class State {
  /** @param {string} fragment */
  constructor(fragment) {
    const {values, problem} = parseFragment(fragment);
    /** @type {Values} */
    this.values = values;
    this.problem = problem;
    this.timer = 0;
    /** A config that came by drop or paste is in the link only if the user says so. */
    this.share = values.config !== "";
  }

  /** @template {Key} K @param {K} key @returns {Values[K]} */
  get(key) { return this.values[key]; }

  /** @template {Key} K @param {K} key @param {Values[K] | number | string} value */
  set(key, value) {
    this.values = {...this.values, [key]: value};
    // Browsers refuse to be told the address at every frame.
    if (!this.timer) this.timer = window.setTimeout(() => this.flush(), 250);
  }

  fragment() { return makeFragment(this.share ? this.values : {...this.values, config: ""}); }

  flush() {
    window.clearTimeout(this.timer);
    this.timer = 0;
    const fragment = this.fragment();
    if (fragment !== location.hash) history.replaceState(null, "", fragment);
  }
}
