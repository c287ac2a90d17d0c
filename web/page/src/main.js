// SPDX-License-Identifier: Apache-2.0
// The page comes to life: words, theme, the core in its Worker, panels when they are opened.
import {App} from "./app.js";
import {cards} from "./chart/card.js";
import {Core, CoreError} from "./core.js";
import {byId, make, setText} from "./dom.js";
import {fillDoors, fillNav} from "./nav.js";
import {added} from "./panels/added.js";
import {attention} from "./panels/attention.js";
import {cache} from "./panels/cache.js";
import {compare} from "./panels/compare.js";
import {decay} from "./panels/decay.js";
import {image} from "./panels/image.js";
import {lab} from "./panels/lab.js";
import {model} from "./panels/model.js";
import {pairs} from "./panels/pairs.js";
import {precision} from "./panels/precision.js";
import {scalings} from "./panels/scalings.js";
import {start} from "./panels/start.js";
import {take} from "./panels/take.js";
import {parseFragment, State} from "./state.js";
import {timings} from "./timing.js";
import {language, say, setLanguage} from "./words.js";

/** @type {import("./shell.js").PanelModule[]} */
const PANELS = [start, model, pairs, scalings, decay, precision, attention, image, added, cache, compare, lab, take];
const THEMES = ["auto", "light", "dark"];

class Page {
  constructor() {
    this.state = new State(location.hash);
    this.app = new App(this.state, new Core(makeWorker()));
    /** @type {Map<string, import("./shell.js").PanelView>} those that have been opened */
    this.views = new Map();
    this.app.refresh = (moving) => void this.refresh(moving);
    this.app.open = (id) => void this.open(id, true);
    this.host = byId("panels");
    this.nav = byId("panel-list");
    this.live = false;
  }

  async begin() {
    const arrivedPlain = location.hash === "";
    setLanguage(this.state.get("lang") || (navigator.language.startsWith("zh") ? "zh" : "en"));
    this.setTheme(this.state.get("theme"));
    if (!this.nav.childElementCount) fillNav(this.nav);
    this.listen();
    this.words();
    this.markNav();
    try {
      const {milliseconds} = await this.app.core.ready;
      timings.core = milliseconds;
      await this.app.start();
      this.live = true;
      document.documentElement.dataset.ready = "true";
      await this.open(this.state.get("panel"), false);
      if (arrivedPlain) /** @type {any} */
        (this.views.get("start"))?.introduce();
    } catch (problem) {
      this.dead(problem);
    }
  }

  /**
   * There is no core: say so, and leave what was drawn beforehand.
   * @param {unknown} problem
   */
  dead(problem) {
    const words = problem instanceof CoreError && problem.kind === "unsupported" ? say("no_core") : say("core_failed");
    const host = byId("core-problem");
    host.hidden = false;
    host.replaceChildren(make("strong", {}, words), make("span", {}, ` ${problem instanceof Error ? problem.message : String(problem)}`));
    document.documentElement.dataset.ready = "failed";
    if (!(problem instanceof CoreError)) console.error(problem);
  }

  listen() {
    document.addEventListener("click", (event) => {
      const link = event.target instanceof Element ? event.target.closest("a[data-panel]") : null;
      if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
      event.preventDefault();
      void this.open(/** @type {HTMLElement} */ (link).dataset.panel || "start", true);
    });
    document.querySelector(".skip")?.addEventListener("click", (event) => {
      event.preventDefault();  // the fragment is the state
      this.host.focus();
    });
    byId("language").addEventListener("click", () => {
      setLanguage(language() === "en" ? "zh" : "en");
      this.state.set("lang", language());
      this.words();
      void this.refresh(false);
    });
    byId("theme").addEventListener("click", () => {
      this.setTheme(THEMES[(THEMES.indexOf(this.state.get("theme")) + 1) % THEMES.length]);
      this.words();
      this.redraw();
    });
    window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.redraw());
    window.addEventListener("hashchange", () => this.follow());
    for (const kind of ["dragover", "drop"]) document.addEventListener(kind, (event) => this.drop(/** @type {DragEvent} */ (event)));
    window.addEventListener("pagehide", () => this.state.flush());
  }

  /**
   * A file dropped anywhere is a model.
   * @param {DragEvent} event
   */
  drop(event) {
    event.preventDefault();
    const file = event.type === "drop" ? event.dataTransfer?.files[0] : undefined;
    document.documentElement.classList.toggle("dropping", event.type === "dragover");
    if (!file || !this.live) return;
    void this.open("model", true);
    void /** @type {any} */ (this.views.get("model")).take(file);
  }

  /** The address was changed by hand or by a link. */
  async follow() {
    if (location.hash === this.state.fragment()) return;
    const {values} = parseFragment(location.hash);
    const model = this.state.get("model");
    this.state.values = {...values, config: this.state.get("config")};
    if (values.model !== model && this.app.presets.some(({name}) => name === values.model)) await this.app.usePreset(values.model);
    this.setTheme(values.theme);
    if (values.lang) setLanguage(values.lang);
    this.words();
    await this.open(values.panel, false);
  }

  /** @param {string} theme */
  setTheme(theme) {
    const known = THEMES.includes(theme) ? theme : "auto";
    this.state.set("theme", known);
    if (known === "auto") delete document.documentElement.dataset.theme;
    else
      document.documentElement.dataset.theme = known;
  }

  words() {
    document.documentElement.lang = language() === "zh" ? "zh-CN" : "en";
    for (const element of document.querySelectorAll("[data-say]")) setText(element, say(/** @type {HTMLElement} */ (element).dataset.say || ""));
    for (const element of document.querySelectorAll("[data-say-label]"))
      element.setAttribute("aria-label", say(/** @type {HTMLElement} */ (element).dataset.sayLabel || ""));
    setText(byId("theme"), say(`theme_${this.state.get("theme")}`));
    for (const link of this.nav.querySelectorAll("a")) setText(link, say(`${link.dataset.panel}_name`));
    for (const view of this.views.values()) view.words?.();
    const doors = document.querySelector(".doors");
    if (doors) fillDoors(doors);
  }

  markNav() {
    const panel = this.state.get("panel");
    for (const link of this.nav.querySelectorAll("a")) {
      if (link.dataset.panel === panel) link.setAttribute("aria-current", "page");
      else
        link.removeAttribute("aria-current");
    }
    const current = this.nav.querySelector("[aria-current=\"page\"]")?.parentElement;
    if (current && this.nav.scrollWidth > this.nav.clientWidth)
      this.nav.scrollLeft = current.offsetLeft - this.nav.clientWidth / 2 + current.offsetWidth / 2;
  }

  /** @param {string} wanted @param {boolean} byHand then the panel's name gets the focus */
  async open(wanted, byHand) {
    const found = PANELS.find(({id}) => id === wanted) || PANELS[0];
    this.state.set("panel", found.id);
    if (this.live) byId("core-problem").hidden = true;
    this.markNav();
    if (!this.live) return;
    const view = this.views.get(found.id) || found.build(this.app);
    this.views.set(found.id, view);
    for (const [id, other] of this.views)
      if (id !== found.id) other.shown?.(false);
    const first = this.views.size === 1 && found.id === "start";
    const refreshed = this.refresh(false);
    // What was drawn beforehand stays until the same is drawn anew.
    if (first) await refreshed;
    this.put(view);
    if (!byHand) return;
    window.scrollTo({top: 0});
    view.element.querySelector("h2")?.focus({preventScroll: true});
  }

  /** @param {import("./shell.js").PanelView} view */
  put(view) {
    if (this.views.get(this.state.get("panel")) !== view) return;  // another was opened meanwhile
    this.host.replaceChildren(view.element);
    document.documentElement.classList.remove("elsewhere");
    const doors = view.element.querySelector(".doors");
    if (doors) fillDoors(doors);
  }

  /** @param {boolean} moving */
  async refresh(moving) {
    const view = this.views.get(this.state.get("panel"));
    this.modelBar();
    try {
      await view?.refresh(moving);
    } catch (problem) {
      this.dead(problem);
    }
  }

  redraw() {
    for (const card of cards.values()) card.draw();
  }

  modelBar() {
    const {model} = this.app;
    if (!model) return;
    const group = this.app.group();
    const label = this.app.changedSpec ? say("changed_scaling") : group?.label || "";
    setText(byId("model-name"), model.name);
    setText(byId("model-label"), this.app.rotates() ? label : say("does_not_rotate"));
  }
}

/**
 * In the offline file the Worker's script and the wasm, packed, are in the page.
 * @returns {Worker}
 */
function makeWorker() {
  if (typeof WebAssembly === "undefined") return /** @type {any} */ (noWorker("This browser has no WebAssembly."));
  const script = document.getElementById("worker-script");
  const packed = document.getElementById("wasm-gzip");
  if (!script || !packed) {
    const worker = new Worker("worker.js");
    void fetched(new URL("phasor.wasm", location.href).href).then((wasm) => worker.postMessage({wasm}));
    return worker;
  }
  if (typeof DecompressionStream === "undefined") return /** @type {any} */ (noWorker("This browser has no DecompressionStream."));
  const worker = new Worker(URL.createObjectURL(new Blob([script.textContent || ""], {type: "text/javascript"})));
  void unpacked(packed.textContent || "").then((wasm) => worker.postMessage({wasm}, [wasm]));
  return worker;
}

/**
 * The bytes that the page's head has asked for already: a Worker that fetched them itself would load them a second time. Where they do not come, the
 * address, at which the Worker fails and says why.
 * @param {string} address @returns {Promise<ArrayBuffer | string>}
 */
async function fetched(address) {
  try {
    const response = await fetch(address);
    return response.ok ? await response.arrayBuffer() : address;
  } catch {
    return address;
  }
}

/** @param {string} base64 of what gzip made */
function unpacked(base64) {
  const bytes = Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).arrayBuffer();
}

/**
 * Says what is missing, as a Worker would.
 * @param {string} message
 */
function noWorker(message) {
  const target = new EventTarget();
  setTimeout(() => target.dispatchEvent(new MessageEvent("message", {data: {failed: {message, kind: "unsupported"}}})));
  return Object.assign(target, {postMessage: () => {}});
}

const page = new Page();
// For tests and for the curious: the numbers behind every figure.
Object.assign(globalThis, {playground: {app: page.app, cards, timings}});
void page.begin();
