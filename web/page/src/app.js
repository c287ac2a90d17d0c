// SPDX-License-Identifier: Apache-2.0
// What all panels share: the state, the core, the model that is looked at.
import {CoreError} from "./core.js";
import {readSource, shareText, unshareText} from "./sources.js";

/** @typedef {import("./types").Spec} Spec */
/** @typedef {import("./types").Model} Model */
/** @typedef {import("./shell.js").Shell} Shell */

/** @type {Spec} */
const PLAIN = {
  head_dim: 128
};
export const MOVING_POINTS = 128;

export class App {
  /** @param {import("./state.js").State} state @param {import("./core.js").Core} core */
  constructor(state, core) {
    this.state = state;
    this.core = core;
    /** @type {Model | null} */
    this.model = null;
    /** @type {Spec | null} another scaling than the model's own, by "use this one" */
    this.changedSpec = null;
    /** @type {{name: string, label: string, spec: Spec, trained_length: number, length: number}[]} */
    this.presets = [];
    /**
     * Panels draw anew.
     * @type {(moving: boolean) => void}
     */
    this.refresh = () => {};
    /** @type {(panel: string) => void} */
    this.open = () => {};
    /** @type {Map<string, string>} the newest question of each channel */
    this.asked = new Map();
    /**
     * Models given by hand, by the name that they have on the page.
     * @type {Map<string, Model>}
     */
    this.given = new Map();
  }

  /**
   * The rotation that is looked at.
   * @returns {Spec}
   */
  spec() { return this.changedSpec || this.group()?.spec || this.model?.spec || PLAIN; }

  /** The same without what a spec alone has: a part of something larger. */
  bareSpec() {
    const {phasor, type, ...rest} = this.spec();
    void[phasor, type];
    return rest;
  }

  rotates() { return !this.model || !!(this.changedSpec || this.group()?.spec || this.model.spec); }

  group() { return this.model?.groups[this.state.get("group")]; }

  /** @param {number} fallback */
  trainedLength(fallback = 4096) { return this.state.get("trained") || this.model?.model.trained_length || fallback; }

  /** What the core says; null where a newer question of the same channel has come, or where it refuses: then the shell says why.
   * @param {Shell} shell @param {string} channel @param {import("./types").Request} request @param {Uint8Array} [bytes] */
  async ask(shell, channel, request, bytes) {
    try {
      const answer = await this.core.ask(channel, request, bytes);
      if (answer) shell.complain("");
      return answer;
    } catch (problem) {
      if (!(problem instanceof CoreError)) throw problem;
      shell.complain(problem.message);
      return null;
    }
  }

  /**
   * As `ask`, but while a thumb moves what has been asked is not asked again: a panel has figures that this thumb does not change.
   * @param {boolean} moving @param {Shell} shell @param {string} channel @param {import("./types").Request} request
   */
  async askNew(moving, shell, channel, request) {
    const key = JSON.stringify(request);
    if (moving && this.asked.get(channel) === key) return null;
    this.asked.set(channel, key);
    return this.ask(shell, channel, request);
  }

  async start() {
    this.presets = (await this.core.ask("presets", {method: "presets"})).presets;
    const shared = this.state.get("config");
    if (shared) {
      try {
        await this.use(await this.read("config.json", {config: await unshareText(shared)}));
        return;
      } catch (problem) {
        this.state.set("config", "");
        this.startProblem = problem instanceof Error ? problem.message : String(problem);
      }
    }
    const wanted = this.state.get("model");
    const name = this.presets.some((preset) => preset.name === wanted) ? wanted : "llama3.1";
    await this.usePreset(name);
  }

  /** @param {string} name @param {import("./types").Source} source @param {Blob} [file] @returns {Promise<Model>} */
  async read(name, source, file) {
    const {answer, source: whole, bytes} = await readSource(this.core, source, file);
    return {name, source: whole, bytes, local: !("preset" in source), ...answer};
  }

  /** @param {string} name */
  async usePreset(name) {
    const group = this.state.get("group");
    const model = await this.read(name, {preset: name});
    await this.use(model, group);
  }

  /** @param {Model} model @param {number} [group] */
  async use(model, group = 0) {
    this.model = model;
    this.changedSpec = null;
    this.state.set("group", group < model.groups.length ? group : 0);
    if (model.local) {
      this.given.set(model.name, model);
      this.state.values = {...this.state.values, config: "config" in model.source ? await shareText(model.source.config) : ""};
    } else {
      this.state.share = false;
      this.state.set("model", model.name);
      this.state.set("config", "");
    }
  }
}
