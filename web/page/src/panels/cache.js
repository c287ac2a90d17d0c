// SPDX-License-Identifier: Apache-2.0
// Cache: keys that were stored with their rotation, after the context shifts or the frequencies change; with and without moving them.
import {Card} from "../chart/card.js";
import {choice, Slider} from "../controls.js";
import {axis, counting, curve, figure} from "../figures.js";
import {number} from "../numbers.js";
import {formula, Shell} from "../shell.js";
import {say} from "../words.js";

/** @typedef {import("../app.js").App} App */

const EVENTS = ["shift", "dynamic", "longrope"];

class Cache {
  /** @param {App} app */
  constructor(app) {
    this.app = app;
    this.shell = new Shell("cache");
    const changed = (/** @type {boolean} */ moving) => void this.refresh(moving);
    this.event = choice(app, {key: "event", label: "event", values: () => EVENTS.map((name) => [name, say(`event_${name}`)])}, () => changed(false));
    this.tokens = new Slider(app, {key: "cached", label: "cached", low: 8, high: 1024, log: true}, changed);
    this.keep = new Slider(app, {key: "keep", label: "keep", low: 0, high: 64}, changed);
    this.discard = new Slider(app, {key: "discard", label: "discard", low: 1, high: 512}, changed);
    this.errors = new Card("cache-errors", {summary: () => this.sentence});
    this.weights = new Card("cache-weights");
    this.sentence = "";
    this.shell.control(this.event, this.tokens, this.keep, this.discard);
    this.shell.body.append(this.weights.element, this.errors.element, formula("rerotate"));
    this.element = this.shell.element;
  }

  words() { this.shell.words(); }

  request() {
    const {state} = this.app;
    const tokens = Math.round(state.get("cached"));
    const event = EVENTS.includes(state.get("event")) ? state.get("event") : "shift";
    /** @type {import("../types").Spec} */
    const plain = {...this.app.spec(), numerics: "exact"};
    const common = {method: `cache.${event}`, tokens};
    if (event === "shift") {
      const keep = Math.min(Math.round(state.get("keep")), tokens - 2);
      return {...common, spec: plain, keep, discard: Math.min(Math.round(state.get("discard")), tokens - keep - 1)};
    }
    const half = Math.max(2, Math.floor(tokens / 2));
    if (event === "longrope") return {...common, original_length: half};
    const {scaling, ...unscaled} = plain;
    void scaling;
    return {...common, spec: unscaled, factor: 2, trained_length: half};
  }

  /** @param {boolean} moving */
  async refresh(moving) {
    const shift = this.app.state.get("event") === "shift";
    for (const control of [this.keep, this.discard]) control.element.hidden = !shift;
    const answer = await this.app.ask(this.shell, "cache", this.request());
    if (!answer) return;
    const x = counting(answer.tokens);
    this.sentence = say("cache_sum", {stale: number(answer.largest_stale), moved: number(answer.largest_moved)});
    const three = (/** @type {string} */ what) =>
        [curve("rotated afresh", x, answer[`${what}_fresh`].data, {color: 0}),
         curve("as stored", x, answer[`${what}_stale`].data, {color: 1, mark: "line"}),
         curve("after rerotate", x, answer[`${what}_moved`].data, {color: 2, mark: "points"}),
    ];
    this.weights.update(
        figure(
            "What the next token sees of each stored key",
            [{title: "", x: axis("key"), y: axis("weight of the softmax", {low: 0}), curves: three("weight")}]),
        moving);
    const curves =
        [curve("as stored", x, answer.error_stale.data, {color: 1}), curve("after rerotate", x, answer.error_moved.data, {color: 2, mark: "points"})];
    this.errors.update(
        figure("Largest error of a channel of each key", [{title: "", x: axis("key"), y: axis("error", {log: true}), curves}]), moving);
  }
}

export const cache = {
  id: "cache",
  build: (/** @type {App} */ app) => new Cache(app)
};
