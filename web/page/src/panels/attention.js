// SPDX-License-Identifier: Apache-2.0
// Attention: the weights of one head under a scheme, computed here; what the scheme adds to a score; which distance each key is taken for.
import {Card} from "../chart/card.js";
import {choice, Slider} from "../controls.js";
import {make} from "../dom.js";
import {cells, figure} from "../figures.js";
import {whole} from "../numbers.js";
import {formula, Shell} from "../shell.js";
import {say} from "../words.js";

/** @typedef {import("../app.js").App} App */

const HEADS = 8;
const HEAD_DIM = 64;
const MOVING_TOKENS = 64;
const CONTENTS = ["same", "random", "ones", "zero"];
const BIASES = ["alibi", "sandwich", "t5", "deberta"];

class Attention {
  /** @param {App} app */
  constructor(app) {
    this.app = app;
    this.shell = new Shell("attention");
    const changed = (/** @type {boolean} */ moving) => void this.refresh(moving);
    const now = () => changed(false);
    /** @type {{name: string, family: string, scheme: any}[]} */
    this.schemes = [];
    this.schemesKey = "";
    this.scheme = choice(app, {key: "scheme", label: "scheme", values: () => this.schemes.map(({name}) => [name, say(`scheme_${name}`)])}, now);
    this.head = new Slider(app, {key: "head", label: "head", low: 0, high: HEADS - 1}, changed);
    this.tokens = new Slider(app, {key: "tokens", label: "tokens", low: 4, high: 256}, changed);
    this.window = new Slider(app, {key: "window", label: "window", low: 0, high: 256}, changed);
    this.span = new Slider(app, {key: "span", label: "span", low: 4, high: 128}, changed);
    this.mask = choice(app, {key: "mask", label: "mask", values: () => ["causal", "all"].map((name) => [name, say(`mask_${name}`)])}, now);
    this.content = choice(app, {key: "content", label: "content", values: () => CONTENTS.map((name) => [name, say(`content_${name}`)])}, now);
    this.weights = new Card("attention", {summary: () => this.sentence});
    this.sentence = "";
    this.bias = new Card("bias");
    this.map = new Card("distances");
    this.explained = make("pre", {class: "words", tabindex: 0});
    this.explainTitle = make("h3", {});
    this.cost = make("section", {class: "card"}, this.explainTitle, this.explained);
    this.shell.control(this.scheme, this.content, this.mask, this.head, this.tokens, this.window, this.span);
    this.shell.body.append(this.weights.element, this.bias.element, this.map.element, formula("attention"), this.cost);
    this.element = this.shell.element;
  }

  words() { this.shell.words(); }

  /** The scheme as the core lists it, with the mask and window of the page. */
  chosen() {
    const {state} = this.app;
    const found = this.schemes.find(({name}) => name === state.get("scheme")) || this.schemes[0];
    const window = Math.round(state.get("window"));
    const causal = state.get("mask") === "causal";
    return {...found, scheme: this.masked(this.ofModel(found.scheme), causal, window)};
  }

  /**
   * Where the scheme rotates, it does so as the model that is looked at.
   * @param {any} scheme
   */
  ofModel(scheme) {
    if (!scheme.content?.rotary || this.app.spec().axes) return scheme;
    return {...scheme, content: {...scheme.content, rotary: {...this.app.bareSpec(), numerics: "exact"}}};
  }

  headDim() { return this.app.spec().axes ? HEAD_DIM : Number(this.app.spec().head_dim); }

  /** @param {any} scheme @param {boolean} causal @param {number} window */
  masked(scheme, causal, window) {
    return {...scheme, mask: causal ? "causal" : "full", ...(window ? {left: window, ...(causal ? {} : {right: window})} : {})};
  }

  /** @param {boolean} moving */
  async refresh(moving) {
    const {app, shell} = this;
    const {state} = app;
    const head_dim = this.headDim();
    const key = `${head_dim} ${state.get("span")}`;
    if (key !== this.schemesKey) {
      const answer =
          await app.ask(shell, "attention-schemes", {method: "attention.schemes", heads: HEADS, head_dim, window: Math.round(state.get("span"))});
      if (!answer) return;
      this.schemes = answer.schemes;
      if (!this.schemesKey) this.scheme.show();
      this.schemesKey = key;
    }
    const {name, family, scheme} = this.chosen();
    this.span.element.hidden = family !== "map" && family !== "table";
    const tokens = Math.min(Math.round(state.get("tokens")), moving ? MOVING_TOKENS : 256);
    const head = Math.round(state.get("head"));
    const content = {kind: state.get("content"), seed: state.get("seed"), strength: 1};
    const weights = await app.ask(shell, "attention", {method: "attention.weights", scheme, tokens, heads: HEADS, head_dim, head, content});
    if (weights) this.drawWeights(weights, name, moving);
    await this.drawBias(name, head, tokens, moving);
    await this.drawMap(scheme.content?.map, tokens, moving);
    if (moving) return;
    const explained = await app.ask(
        shell, "attention-explain", {method: "attention.explain", scheme, queries: 4096, keys: 4096, heads: HEADS, kv_heads: HEADS, head_dim});
    this.cost.hidden = !explained;
    if (!explained) return;
    this.explainTitle.textContent = say("explain_title", {tokens: whole(4096)});
    this.explained.textContent = explained.words;
    this.explained.setAttribute("aria-label", this.explainTitle.textContent);
  }

  /** @param {any} answer @param {string} name @param {boolean} moving */
  drawWeights(answer, name, moving) {
    const [tokens] = answer.weights.shape;
    const last = answer.weights.data.subarray((tokens - 1) * tokens);
    let best = 0;
    for (let i = 0; i < tokens; i += 1)
      if (last[i] > last[best]) best = i;
    this.sentence =
        say(best === tokens - 1 ? "attention_sum_self" : "attention_sum",
            {query: tokens - 1, key: best, distance: tokens - 1 - best, weight: Number(last[best]).toPrecision(3)});
    // The first rows have few keys, so their weights are large: colours are those of the last row.
    this.weights.update(
        figure(
            say("attention_title", {scheme: say(`scheme_${name}`)}),
            [cells({x: "key position", y: "query position", label: "weight", low: 0, high: last[best]}, answer.weights)]),
        moving);
  }

  /** @param {string} name @param {number} head @param {number} tokens @param {boolean} moving */
  async drawBias(name, head, tokens, moving) {
    this.bias.element.hidden = !BIASES.includes(name);
    if (this.bias.element.hidden) return;
    const answer = await this.app.ask(
        this.shell, "attention-bias", {method: "figure.bias", scheme: name, heads: HEADS, show: [head], length: Math.max(2, tokens)});
    if (answer) this.bias.update(answer.figure, moving);
  }

  /** @param {Record<string, unknown> | undefined} map @param {number} tokens @param {boolean} moving */
  async drawMap(map, tokens, moving) {
    this.map.element.hidden = !map;
    if (!map) return;
    const answer = await this.app.ask(this.shell, "attention-map", {method: "distances", map, queries: tokens, keys: tokens});
    if (answer)
      this.map.update(
          figure("The distance that each key is taken for", [cells({x: "key position", y: "query position", label: "distance"}, answer.distances)]),
          moving);
  }
}

export const attention = {
  id: "attention",
  build: (/** @type {App} */ app) => new Attention(app)
};
