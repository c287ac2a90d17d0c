// SPDX-License-Identifier: Apache-2.0
// Links to the panels: beside them, and as doors on the first page.
import {make} from "./dom.js";
import {PANEL_NAMES} from "./panel_names.js";
import {say} from "./words.js";

/**
 * With a question mark, so that it is a link to a page: one that begins with # and lies outside of a phone's strip is taken for a skip link.
 * @param {string} id
 */
const address = (id) => `?#v=1&panel=${id}`;

/** @param {Element} host */
export function fillNav(host) {
  host.replaceChildren(...PANEL_NAMES.map((id) => make("li", {}, make("a", {href: address(id), "data-panel": id}, say(`${id}_name`)))));
}

/**
 * Each with the question that its panel answers.
 * @param {Element} host
 */
export function fillDoors(host) {
  host.replaceChildren(...PANEL_NAMES.slice(1).map(
      (id) => make(
          "li", {},
          make("a", {href: address(id), "data-panel": id}, make("strong", {}, say(`${id}_name`)), make("span", {}, say(`${id}_question`))))));
}
