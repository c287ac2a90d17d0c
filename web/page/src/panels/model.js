// SPDX-License-Identifier: Apache-2.0
// Model: drop, paste or pick one; what it does with positions; layers that differ.
import {button} from "../controls.js";
import {CoreError} from "../core.js";
import {freshId, make, setText} from "../dom.js";
import {whole} from "../numbers.js";
import {facts, Shell} from "../shell.js";
import {sourceOf} from "../sources.js";
import {say} from "../words.js";

/** @typedef {import("../app.js").App} App */

class ModelPanel {
  /** @param {App} app */
  constructor(app) {
    this.app = app;
    this.shell = new Shell("model");
    this.presets = make("div", {class: "presets", role: "group"});
    const file = make("input", {type: "file", id: freshId("file"), class: "file", accept: ".json,.gguf"});
    file.addEventListener("change", () => file.files?.[0] && void this.take(file.files[0]));
    this.fileName = make("label", {"for": file.id, class: "drop"});
    this.paste = make("textarea", {id: freshId("paste"), rows: 4, spellcheck: "false"});
    this.pasteName = make("label", {"for": this.paste.id});
    this.read = button("read", () => void this.takeText(this.paste.value));
    this.told = make("pre", {class: "words", tabindex: 0});
    this.toldTitle = make("h3", {});
    this.groupsTitle = make("h3", {});
    this.groups = make("div", {class: "scroll", tabindex: 0, role: "group"});
    this.warnings = make("ul", {class: "warnings"});
    this.facts = make("div", {});
    this.shell.controls.append(this.presets);
    this.shell.shown.push(this.read);
    this.shell.body.append(
        make(
            "div", {class: "sources"}, make("div", {}, file, this.fileName),
            make("div", {class: "paste"}, this.pasteName, this.paste, this.read.element)),
        make("section", {class: "card"}, this.toldTitle, this.facts, this.warnings, this.told),
        make("section", {class: "card"}, this.groupsTitle, this.groups),
    );
    this.element = this.shell.element;
    this.words();
  }

  words() {
    this.shell.words();
    setText(this.fileName, say("drop"));
    setText(this.pasteName, say("paste"));
    this.paste.placeholder = "{\"model_type\": \"llama\", \"rope_theta\": 500000.0, ...}";
    setText(this.toldTitle, say("told"));
    this.told.setAttribute("aria-label", say("told"));
    setText(this.groupsTitle, say("layers"));
    this.groups.setAttribute("aria-label", say("layers"));
    this.presets.setAttribute("aria-label", say("presets"));
  }

  /** @param {File} file */
  async take(file) { await this.attempt(async () => this.app.read(file.name, await sourceOf(file), file)); }

  /** @param {string} text */
  async takeText(text) { await this.attempt(() => this.app.read(say("pasted"), {config: text})); }

  /**
   * Takes the model, or says in the library's words why not; the one before stays.
   * @param {() => Promise<import("../types").Model>} read
   */
  async attempt(read) {
    try {
      await this.app.use(await read());
      this.shell.complain("");
      this.app.refresh(false);
    } catch (problem) {
      if (!(problem instanceof CoreError) && !(problem instanceof DOMException)) throw problem;
      this.shell.complain(problem.message);
    }
  }

  async refresh() {
    const {model, presets} = this.app;
    if (this.app.startProblem) {
      this.shell.complain(this.app.startProblem);
      this.app.startProblem = "";
    }
    if (!model) return;
    this.presets.replaceChildren(
        ...presets.map(
            ({name, label}) => make(
                "button", {
                  type: "button",
                  class: "preset",
                  "aria-pressed": model.name === name,
                  onclick: () => void this.attempt(() => this.app.read(name, {preset: name}))
                },
                make("strong", {}, name), make("span", {}, label))),
    );
    const {dialect, model_type, layers, trained_length, length, warnings} = model.model;
    this.facts.replaceChildren(facts([
      [say("name"), model.name], [say("dialect"), `${dialect} / ${model_type}`], [say("layer_count"), whole(layers)],
      [say("trained_length"), whole(trained_length)], [say("allowed_length"), whole(length)]
    ]));
    this.warnings.replaceChildren(...warnings.map((warning) => make("li", {}, typeof warning === "string" ? warning : JSON.stringify(warning))));
    setText(this.told, model.explain);
    this.drawGroups();
  }

  drawGroups() {
    const {app} = this;
    const head = ["layers_of", "does", "window_of", "look"].map((key) => make("th", {scope: "col"}, say(key)));
    const rows = (app.model?.groups || []).map((group, i) => {
      const chosen = app.state.get("group") === i;
      const look = make(
          "button",
          {type: "button", class: "quiet", "aria-pressed": chosen, "aria-label": `${say("look")} ${group.words}`, onclick: () => this.choose(i)},
          say(chosen ? "looked_at" : "look"));
      const does = group.describe || group.bias?.kind || group.additive?.kind || say("no_positions");
      const window = group.window ? whole(group.window) : group.chunk ? whole(group.chunk) : say("whole_context");
      return make(
          "tr", {}, make("th", {scope: "row"}, [group.tower, group.words, group.type].filter(Boolean).join(" · ")), make("td", {}, does),
          make("td", {}, window), make("td", {}, look));
    });
    this.groups.replaceChildren(make("table", {}, make("thead", {}, make("tr", {}, ...head)), make("tbody", {}, ...rows)));
  }

  /** @param {number} index */
  choose(index) {
    this.app.state.set("group", index);
    this.app.changedSpec = null;
    this.app.refresh(false);
  }
}

export const model = {
  id: "model",
  build: (/** @type {App} */ app) => new ModelPanel(app)
};
