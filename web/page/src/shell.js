// SPDX-License-Identifier: Apache-2.0
// What every panel is put into: its name, its question, room for controls and figures, and a place where the library says what is wrong.
import formulas from "formulas";

import {make, setText} from "./dom.js";
import {say} from "./words.js";


/** @typedef {{element: HTMLElement, refresh: (moving: boolean) => void | Promise<void>, words?: () => void, shown?: (on: boolean) => void}} PanelView */
/** @typedef {{id: string, build: (app: import("./app.js").App) => PanelView}} PanelModule */

export class Shell {
  /** @param {string} id */
  constructor(id) {
    this.id = id;
    this.title = make("h2", {id: `title-${id}`, tabindex: -1});
    this.lead = make("p", {class: "lead"});
    this.problem = make("p", {class: "problem", role: "alert", hidden: true});
    this.controls = make("div", {class: "controls"});
    this.body = make("div", {class: "body"});
    this.element = make(
        "section", {class: "panel-view", id: `panel-${id}`, "aria-labelledby": `title-${id}`}, this.title, this.lead, this.controls, this.problem,
        this.body);
    /** @type {{show: () => void}[]} */
    this.shown = [];
    this.words();
  }

  words() {
    setText(this.title, say(`${this.id}_question`));
    setText(this.lead, say(`${this.id}_lead`));
    for (const control of this.shown) control.show();
  }

  /** @param {...{element: HTMLElement, show: () => void}} controls */
  control(...controls) {
    this.shown.push(...controls);
    this.controls.append(...controls.map(({element}) => element));
  }

  /**
   * What is wrong, in the library's words; empty: nothing.
   * @param {string} words
   */
  complain(words) {
    this.problem.hidden = words === "";
    setText(this.problem, words);
  }
}

/**
 * A formula as MathML, made when the page was built.
 * @param {string} name
 */
export function formula(name) {
  const host = make("div", {class: "formula", tabindex: 0});  // on a phone it scrolls, by keys too
  host.innerHTML = formulas[name];
  return host;
}

/**
 * A note below a figure whose words follow the language.
 * @param {string} key
 */
export function note(key) {
  const element = make("p", {class: "note"});
  const show = () => setText(element, say(key));
  show();
  return {element, show};
}

/**
 * Words and values side by side.
 * @param {[string, string | Node][]} entries
 */
export function facts(entries) {
  return make("dl", {class: "facts"}, ...entries.flatMap(([name, value]) => [make("div", {}, make("dt", {}, name), make("dd", {}, value))]));
}
