// SPDX-License-Identifier: Apache-2.0
// The first thing one sees: one slider, the hands that it turns, and how far float32 takes them from the truth.
import {Card} from "../chart/card.js";
import {Slider} from "../controls.js";
import {make, setText} from "../dom.js";
import {axis, curve, figure} from "../figures.js";
import {number, percent, tick, whole} from "../numbers.js";
import {Player} from "../player.js";
import {Shell} from "../shell.js";
import {say} from "../words.js";

/** @typedef {import("../app.js").App} App */

export const FAR = 10_000_000;
const CLOCKS = 6;
const INTRODUCTION = 7;  // seconds
const WANTED_CURVE = {
  first: 1,
  last: FAR,
  points: 64,
  log: true
};
const TWO_HANDS = /** @type {const} */ ([
  ["exact", {color: 0}],
  ["float32", {color: 1, dashed: true}],
]);

/**
 * What the page asks for at a position.
 * @param {import("../types").Spec} spec @param {number} position
 */
export function startRequests(spec, position) {
  const positions = [position];
  return [
    {method: "pairs.cos_sin", spec: {...spec, numerics: "exact"}, positions, type: "f32"},
    {method: "pairs.cos_sin", spec: {...spec, numerics: "hf"}, positions, type: "f32"},
    {method: "precision.pairs", spec, positions},
  ];
}

/** @param {any} errors of `precision.pairs` @param {string} numerics */
export const errorsOf = (errors, numerics) => errors.profiles.find((/** @type {any} */ one) => one.numerics === numerics)?.errors;

/**
 * The pair whose float32 angle is worst.
 * @param {any} errors
 */
function worstPair(errors) {
  const all = errorsOf(errors, "hf")?.data || [0];
  return all.reduce((/** @type {number} */ best, /** @type {number} */ value, /** @type {number} */ i) => (value > all[best] ? i : best), 0);
}

class Start {
  /** @param {App} app */
  constructor(app) {
    this.app = app;
    this.shell = new Shell("start");
    this.clock = new Card("hero-clock", {summary: () => this.clockWords()});
    this.clocks = new Card("hero-clocks", {summary: () => this.clocksWords()});
    this.curve = new Card("hero-error", {summary: () => this.curveWords(), ratio: 0.36});
    this.slider = new Slider(app, {key: "position", label: "position", low: 0, high: FAR, log: true}, (moving) => void this.refresh(moving));
    this.player = new Player(app, this.slider, "position");
    this.says = make("p", {class: "says", "aria-live": "polite"});
    this.shell.control(this.slider, this.player);
    const {title, lead, controls, problem, body, element} = this.shell;
    const hero = make("div", {class: "hero"}, make("div", {class: "hero-words"}, title, lead, controls, this.says, problem), this.clock.element);
    body.append(this.clocks.element, this.curve.element);
    element.replaceChildren(hero, body, make("ul", {class: "doors"}));
    this.element = this.shell.element;
    this.worst = 0;
    /** @type {Float64Array} by pair, at the position */
    this.errors = new Float64Array();
    this.exactErrors = this.errors;
    /** @type {Float64Array | null} */
    this.wavelengths = null;
    this.at = 0;
    /** @type {any} */
    this.far = null;
    this.specKey = "";
  }

  words() { this.shell.words(); }

  /** @param {boolean} on */
  shown(on) {
    if (!on) this.player.stop();
  }

  /** For whoever comes for the first time: the hands run to ten million within some seconds, and part. Any touch ends it. */
  introduce() {
    if (window.matchMedia("(prefers-reduced-motion: reduce)").matches) return;
    this.app.state.set("position", 1);
    this.player.play({seconds: INTRODUCTION, last: FAR});
    for (const kind of ["keydown", "wheel"]) window.addEventListener(kind, () => this.player.stop(), {once: true, passive: true});
  }

  /** Once per model: the curve, and how long each hand takes. */
  async prepare() {
    const spec = this.app.spec();
    const key = JSON.stringify(spec);
    if (key === this.specKey) return;
    const [errors, pairs] = await Promise.all([
      this.app.ask(this.shell, "start-curve", {method: "precision", spec, positions: WANTED_CURVE}),
      this.app.ask(this.shell, "start-pairs", {method: "pairs", spec}),
    ]);
    if (!errors || !pairs) return;
    [this.specKey, this.far, this.wavelengths] = [key, errors, pairs.wavelengths.data];
  }

  /** @param {boolean} moving */
  async refresh(moving) {
    await this.prepare();
    if (!this.far) return;
    const position = this.app.state.get("position");
    const [exact, float32, errors] = startRequests(this.app.spec(), position).map((request, i) => this.app.ask(this.shell, `start-${i}`, request));
    const tables = await Promise.all([exact, float32]);
    // Errors take the core longer than hands: while a thumb moves, hands do not wait for them.
    if (moving && this.errors.length && tables.every(Boolean)) this.drawHands(tables, moving);
    const found = await errors;
    if (!found || !tables.every(Boolean)) return;
    this.at = position;
    this.errors = errorsOf(found, "hf").data;
    this.exactErrors = errorsOf(found, "exact").data;
    this.worst = worstPair(found);
    this.drawHands(tables, moving);
    this.curve.update(this.errorFigure(position), moving);
    setText(this.says, this.sentence());
  }

  /** @param {any[]} tables @param {boolean} moving */
  drawHands(tables, moving) {
    const [exact] = tables;
    const pairs = exact.cos.shape[1];
    const some = Array.from({length: CLOCKS}, (_, i) => Math.floor(((pairs - 1) * i) / (CLOCKS - 1)));
    const hands = (/** @type {number[]} */ which) => TWO_HANDS.map(
        ([name, style], i) =>
            curve(name, which.map((pair) => tables[i].cos.data[pair]), which.map((pair) => tables[i].sin.data[pair]), {...style, mark: "arrows"}));
    const clocks = (/** @type {number[]} */ which, /** @type {string[]} */ named) =>
        ({title: "", x: axis("cos"), y: axis("sin"), clocks: named, circle: this.reach(tables), curves: hands(which)});
    this.shownPairs = some;
    this.clock.update(figure(say("hero_clock", {pair: this.worst}), [clocks([this.worst], [String(this.worst)])]), moving);
    this.clocks.update(figure(say("hero_clocks"), [clocks(some, some.map((pair) => this.turnWords(pair)))]), moving);
  }

  /**
   * How long a hand can be: the amplitude, which YaRN changes.
   * @param {any[]} tables
   */
  reach(tables) { return Math.max(1, ...tables[0].cos.data.map(Math.abs), ...tables[0].sin.data.map(Math.abs)); }

  /** @param {number} pair */
  turnWords(pair) { return this.wavelengths ? say("a_turn_in", {length: tick(this.wavelengths[pair])}) : String(pair); }

  /** @param {number} position */
  errorFigure(position) {
    const x = this.far.positions.data;
    const here = Math.max(...this.errors);
    const curves = [
      curve("float32", x, this.far.hf.data, {color: 1, dashed: true}),
      curve("exact", x, this.far.exact.data, {color: 0}),
      curve(say("here"), [Math.max(position, 1)], [here], {color: 6, mark: "points"}),
    ];
    return figure(say("hero_error"), [{
                    title: "",
                    x: axis("position", {log: true, low: 1, high: FAR}),
                    y: axis("largest error of a cosine or sine", {log: true, low: 1e-9, high: 10}),
                    curves
                  }]);
  }

  sentence() {
    const error = Math.max(...this.errors);
    const words = {position: whole(this.at), error: percent(error), exact: number(Math.max(...this.exactErrors))};
    return say(error < 0.0005 ? "hero_fine" : error < 0.1 ? "hero_off" : "hero_lost", words);
  }

  clockWords() { return say("hero_clock_sum", {pair: this.worst, position: whole(this.at), error: percent(this.errors[this.worst])}); }

  clocksWords() {
    const some = this.shownPairs || [0];
    return say("hero_clocks_sum", {fast: number(this.wavelengths?.[some[0]]), slow: number(this.wavelengths?.[some[some.length - 1]])});
  }

  curveWords() {
    const list = this.far.hf.data;
    return say("hero_error_sum", {far: percent(list[list.length - 1]), exact: number(Math.max(...this.far.exact.data))});
  }
}

export const start = {
  id: "start",
  build: (/** @type {App} */ app) => new Start(app)
};
