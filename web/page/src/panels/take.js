// SPDX-License-Identifier: Apache-2.0
// Take along: the same rotation as code, as a config, as GGUF keys; every figure as a file; a link to what is seen.
import {cards} from "../chart/card.js";
import {make, setText} from "../dom.js";
import {Shell} from "../shell.js";
import {figureWords, say} from "../words.js";

/** @typedef {import("../app.js").App} App */

const LANGUAGES = ["python", "cpp", "cli", "hf_config", "gguf_keys", "json"];

/** @param {() => string} text */
function copyButton(text) {
  const element = make("button", {type: "button", class: "quiet"}, say("copy"));
  element.addEventListener("click", async () => {
    await navigator.clipboard?.writeText(text()).catch(() => {});
    setText(element, say("copied"));
    setTimeout(() => setText(element, say("copy")), 1500);
  });
  return element;
}

class Take {
  /** @param {App} app */
  constructor(app) {
    this.app = app;
    this.shell = new Shell("take");
    this.codes = make("div", {class: "codes"});
    this.linkTitle = make("h3", {});
    this.link = make("input", {type: "text", readonly: true, class: "link"});
    this.share = make("input", {type: "checkbox"});
    this.shareName = make("span", {});
    this.shareLabel = make("label", {class: "check"}, this.share, this.shareName);
    this.share.addEventListener("change", () => {
      this.app.state.share = this.share.checked;
      this.app.state.flush();
      this.showLink();
    });
    this.figuresTitle = make("h3", {});
    this.figures = make("ul", {class: "files"});
    this.shell.body.append(
        make("section", {class: "card"}, this.linkTitle, make("div", {class: "row"}, this.link, copyButton(() => this.link.value)), this.shareLabel),
        this.codes,
        make("section", {class: "card"}, this.figuresTitle, this.figures),
    );
    this.element = this.shell.element;
  }

  words() { this.shell.words(); }

  showLink() {
    const {model, state} = this.app;
    this.shareLabel.hidden = !model?.local || !("config" in model.source);
    this.share.checked = state.share;
    this.link.value = `${location.href.split("#")[0]}${state.fragment()}`;
    setText(this.linkTitle, say("link"));
    this.link.setAttribute("aria-label", say("link"));
    setText(this.shareName, say("share_config"));
  }

  async refresh() {
    this.showLink();
    const {model} = this.app;
    const request = {
      method: "spec.export",
      spec: this.app.spec(),
      model_type: model?.model.dialect === "huggingface" ? model.model.model_type : "llama",
      layers: model?.model.layers || 1,
      ...(model ? {length: model.model.length, trained_length: model.model.trained_length} : {})
    };
    const [spec, whole] = await Promise.all([this.app.ask(this.shell, "take", request), this.wholeModel()]);
    const answer = spec && {...spec, ...whole};
    if (answer) this.codes.replaceChildren(...LANGUAGES.map((name) => this.code(name, answer[name])));
    setText(this.figuresTitle, say("figures"));
    const drawn = [...cards.values()].filter((card) => card.figure);
    this.figures.replaceChildren(
        ...drawn.map((card) => {
          const title = figureWords(card.figure?.title || "");
          const save = (/** @type {"svg" | "csv"} */ kind) => make(
              "button", {type: "button", class: "quiet", "aria-label": `${kind.toUpperCase()} ${say("of")} ${title}`, onclick: () => card.save(kind)},
              kind.toUpperCase());
          return make("li", {}, make("span", {}, title), save("svg"), save("csv"));
        }),
    );
  }

  /** Config and keys of the whole model, every layer as it is; of a changed spec there is no whole model. */
  async wholeModel() {
    const {model, changedSpec} = this.app;
    if (!model || changedSpec) return {};
    return (await this.app.ask(
               this.shell, "take-model", {method: "model.export", source: model.source, architecture: model.model.model_type}, model.bytes)) ||
        {};
  }

  /** @param {string} name @param {{text?: string, error?: string}} code */
  code(name, code) {
    const text = code.text ?? code.error ?? "";
    return make(
        "section",
        {class: "card", "data-code": name},
        make("div", {class: "head"}, make("h3", {}, say(`take_${name}`)), code.text === undefined ? null : copyButton(() => text)),
        make("pre", {class: code.text === undefined ? "refused" : "code", tabindex: 0, "aria-label": say(`take_${name}`)}, text),
    );
  }
}

export const take = {
  id: "take",
  build: (/** @type {App} */ app) => new Take(app)
};
