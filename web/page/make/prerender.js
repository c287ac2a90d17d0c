// SPDX-License-Identifier: Apache-2.0
// The first picture, drawn when the page is built: the page's own code in jsdom, with the core that the page gets. node prerender.cjs index.html phasor.wasm > prerendered.html
import {JSDOM} from "jsdom";
import {readFileSync} from "node:fs";
import {makeCore} from "phasor-core";

const [template, wasm] = process.argv.slice(2);
const {window} = new JSDOM(readFileSync(template, "utf8"));
Object.assign(globalThis, {window, document: window.document, location: {hash: ""}});

async function main() {
  const [{App}, {State}, {start}, {fillDoors, fillNav}] =
      await Promise.all([import("../src/app.js"), import("../src/state.js"), import("../src/panels/start.js"), import("../src/nav.js")]);
  Object.assign(globalThis, {requestAnimationFrame: () => 0});
  window.setTimeout = () => 0;  // the state would write an address
  const core = await makeCore({wasm: readFileSync(wasm)});
  const app = new App(new State(""), {ask: async (_, request) => core.call(request)});
  await app.start();
  const view = start.build(app);
  await view.refresh(false);
  fillDoors(view.element.querySelector(".doors"));
  fillNav(document.getElementById("panel-list"));
  document.querySelector("[data-panel=\"start\"]").setAttribute("aria-current", "page");
  document.getElementById("panels").append(view.element);
  document.getElementById("model-label").textContent = app.group().label;
  document.getElementById("theme").textContent = "Theme: system";
  process.stdout.write(`<!doctype html>\n${document.documentElement.outerHTML}\n`);
}

main().catch((problem) => {
  console.error(problem);
  process.exit(1);
});
