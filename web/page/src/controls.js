// SPDX-License-Identifier: Apache-2.0
// What one changes: sliders with a field for the number, choices, buttons. Each is bound to a key of the state.
import {freshId, make, setText} from "./dom.js";
import {whole} from "./numbers.js";
import {moved, timed} from "./timing.js";
import {say} from "./words.js";

/** @typedef {import("./state.js").Key} Key */
/** @typedef {import("./app.js").App} App */

const STEPS = 1000;

/**
 * @typedef {object} SliderOptions
 * @property {Key} key
 * @property {string} label a key of the words
 * @property {number} low
 * @property {number} high
 * @property {boolean} [log] equal ratios; from 1 on where `low` is 0
 * @property {number} [step] of a slider that is not logarithmic
 * @property {(value: number) => string} [words]
 */

export class Slider {
  /** @param {App} app @param {SliderOptions} options @param {(moving: boolean) => void} changed */
  constructor(app, options, changed) {
    this.app = app;
    this.options = options;
    this.changed = changed;
    this.low = NaN;
    this.high = NaN;
    const id = freshId("slider");
    this.name = make("label", { for: id
    });
    this.range = make("input", {type: "range", id, min: 0, max: STEPS, step: 1});
    this.field = make("input", {type: "number", class: "number", min: options.low, max: options.high, step: options.step ?? "any"});
    this.element = make("div", {class: "control slider"}, this.name, this.range, this.field);
    this.limits(options.low, options.high);
    this.range.addEventListener("input", () => timed(() => this.take(this.fromRange(), true)));
    this.range.addEventListener("change", () => this.take(this.fromRange(), false));
    this.field.addEventListener("change", () => this.take(this.bounded(Number(this.field.value)), false));
    this.show();
  }

  /** @param {number} low @param {number} high */
  limits(low, high) {
    if (this.low === low && this.high === high) return;
    [this.low, this.high] = [low, Math.max(high, low)];
    this.field.min = String(low);
    this.field.max = String(this.high);
    if (!this.options.log) Object.assign(this.range, {min: String(low), max: String(this.high), step: String(this.options.step ?? 1)});
    this.show();
  }

  /** @param {number} value */
  bounded(value) {
    const {low = 0, high = 0} = this;
    return Math.min(Math.max(Number.isFinite(value) ? value : low, low), high);
  }

  fromRange() {
    const at = Number(this.range.value);
    if (!this.options.log) return at;
    const low = Math.max(this.low ?? 1, 1);
    if (at === 0) return this.low ?? 1;
    return Math.round(low * (Number(this.high) / low) ** (at / STEPS));
  }

  /** @param {number} value @param {boolean} moving */
  take(value, moving) {
    this.app.state.set(this.options.key, value);
    if (moving) moved();
    this.show(moving);
    this.changed(moving);
  }

  /**
   * As the state has it.
   * @param {boolean} [moving] the thumb is where the hand put it
   */
  show(moving = false) {
    const value = this.bounded(Number(this.app.state.get(this.options.key)));
    const low = Math.max(this.low ?? 1, 1);
    if (!moving) {
      const at = this.options.log ? (value < low ? 0 : (STEPS * Math.log(value / low)) / Math.log(Math.max(Number(this.high) / low, 1.0001))) : value;
      this.range.value = String(this.options.log ? Math.round(at) : at);
    }
    setText(this.name, say(this.options.label));
    this.field.value = String(value);
    this.field.setAttribute("aria-label", say(this.options.label));
    this.range.setAttribute("aria-valuetext", this.options.words ? this.options.words(value) : whole(value));
  }
}

/**
 * @param {App} app
 * @param {{key: Key, label: string, values: () => [string, string][]}} options values: each with its words
 * @param {() => void} changed
 */
export function choice(app, {key, label, values}, changed) {
  const id = freshId("choice");
  const name = make("label", { for: id
  });
  const select = make("select", {id});
  select.addEventListener("change", () => {
    const before = app.state.get(key);
    app.state.set(key, typeof before === "number" ? Number(select.value) : select.value);
    changed();
  });
  const show = () => {
    name.textContent = say(label);
    select.replaceChildren(...values().map(([value, words]) => make("option", {value}, words)));
    select.value = String(app.state.get(key));
    if (select.selectedIndex < 0 && select.options.length) select.selectedIndex = 0;
  };
  show();
  return {element: make("div", {class: "control choice"}, name, select), show, select};
}

/** @param {string} label a key of the words @param {() => void} onclick @param {string} [look] */
export function button(label, onclick, look = "") {
  const element = make("button", {type: "button", class: look, onclick}, say(label));
  return {element, show: () => setText(element, say(label))};
}
