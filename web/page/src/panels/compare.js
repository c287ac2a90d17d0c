// SPDX-License-Identifier: Apache-2.0
// Compare: two models; what differs and matters, and what differs and does not.
import {choice} from "../controls.js";
import {make, setText} from "../dom.js";
import {Shell} from "../shell.js";
import {say} from "../words.js";

/** @typedef {import("../app.js").App} App */

class Compare {
  /** @param {App} app */
  constructor(app) {
    this.app = app;
    this.shell = new Shell("compare");
    const values = () => [...app.presets.map(({name}) => name), ...app.given.keys()].map((name) => /** @type {[string, string]} */ ([name, name]));
    this.left = choice(app, {key: "left", label: "left", values}, () => void this.refresh());
    this.right = choice(app, {key: "right", label: "right", values}, () => void this.refresh());
    this.verdict = make("p", {class: "says", role: "status"});
    this.lists = make("div", {});
    this.shell.control(this.left, this.right);
    this.shell.body.append(this.verdict, this.lists);
    this.element = this.shell.element;
  }

  words() { this.shell.words(); }

  /** @param {string} name */
  model(name) { return this.app.given.get(name) || {source: {preset: name}, bytes: undefined}; }

  async refresh() {
    this.left.show();
    this.right.show();
    const [left, right] = [this.model(this.left.select.value), this.model(this.right.select.value)];
    const {sources, bytes} = together([left, right]);
    const answer = await this.app.ask(this.shell, "compare", {method: "model.diff", left: sources[0], right: sources[1]}, bytes);
    if (!answer) return;
    const [matter, rest] = [true, false].map((matters) => answer.differences.filter((/** @type {any} */ one) => one.matters === matters));
    setText(
        this.verdict,
        say(answer.matter                 ? "compare_matter" :
                answer.differences.length ? "compare_rest" :
                                            "compare_same",
            {matter: answer.matter, rest: rest.length, left: this.left.select.value, right: this.right.select.value}));
    this.lists.replaceChildren(
        ...[this.list("what_matters", matter), this.list("what_does_not", rest)].filter(Boolean).map((node) => /** @type {Node} */ (node)));
  }

  /** @param {string} key @param {any[]} differences */
  list(key, differences) {
    if (!differences.length) return null;
    const head = ["where", "left", "right", "why"].map((name) => make("th", {scope: "col"}, say(name)));
    const rows = differences.map(
        (one) => make(
            "tr", {}, make("th", {scope: "row"}, one.where), make("td", {}, String(one.left)), make("td", {}, String(one.right)),
            make("td", {}, one.why || "")));
    return make(
        "section", {class: "card", "data-differences": key}, make("h3", {}, say(key)),
        make(
            "div", {class: "scroll", tabindex: 0, role: "group", "aria-label": say(key)},
            make("table", {}, make("thead", {}, make("tr", {}, ...head)), make("tbody", {}, ...rows))));
  }
}

/**
 * Sources whose bytes are one attachment.
 * @param {{source: import("../types").Source, bytes?: Uint8Array}[]} models
 */
function together(models) {
  const bytes = new Uint8Array(models.reduce((sum, model) => sum + (model.bytes?.length || 0), 0));
  let at = 0;
  const sources = models.map(({source, bytes: own}) => {
    if (!own) return source;
    bytes.set(own, at);
    const shift = at;
    at += own.length;
    return movedBy(source, shift);
  });
  return {sources, bytes: bytes.length ? bytes : undefined};
}

/**
 * A source whose bytes begin later in the attachment.
 * @param {import("../types").Source} source @param {number} shift @returns {import("../types").Source}
 */
function movedBy(source, shift) {
  if ("config_bytes" in source) return {config_bytes: {...source.config_bytes, at: source.config_bytes.at + shift}};
  if (!("gguf" in source)) return source;
  return {gguf: {size: source.gguf.size, ranges: source.gguf.ranges.map((range) => ({...range, at: range.at + shift}))}};
}

export const compare = {
  id: "compare",
  build: (/** @type {App} */ app) => new Compare(app)
};
