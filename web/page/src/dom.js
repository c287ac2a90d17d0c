// SPDX-License-Identifier: Apache-2.0
// Making elements: one function for HTML, one for SVG.

/** @typedef {Record<string, unknown>} Attributes */

/**
 * @param {Element} element
 * @param {Attributes} attributes `on...` are listeners, false and undefined are left out, true is an empty attribute
 */
export function set(element, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), /** @type {EventListener} */ (value));
    else if (name.startsWith("aria-"))
      element.setAttribute(name, String(value));  // false is a value there
    else if (value !== undefined && value !== false && value !== null)
      element.setAttribute(name, value === true ? "" : String(value));
  }
}

/**
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Attributes} [attributes]
 * @param {...(Node | string | null | undefined)} children
 * @returns {HTMLElementTagNameMap[Tag]}
 */
export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  set(element, attributes);
  for (const child of children)
    if (child !== null && child !== undefined) element.append(child);
  return element;
}

/**
 * @param {string} tag
 * @param {Attributes} [attributes]
 * @param {...Node} children
 * @returns {SVGElement}
 */
export function svg(tag, attributes = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  set(element, attributes);
  element.append(...children);
  return /** @type {SVGElement} */ (element);
}

/** Sets what has changed: writing the same text again costs a layout.
 * @param {Element} element @param {string} text */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** @param {string} id @returns {HTMLElement} */
export function byId(id) {
  const element = document.getElementById(id);
  if (!element) throw new Error(`the page has no #${id}`);
  return element;
}

let lastId = 0;
/**
 * An id that nothing else has.
 * @param {string} stem
 */
export function freshId(stem) {
  lastId += 1;
  return `${stem}-${lastId}`;
}

/**
 * The user gets `text` as a file.
 * @param {string} name @param {string} type @param {string} text
 */
export function download(name, type, text) {
  const address = URL.createObjectURL(new Blob([text], {type}));
  const link = make("a", {href: address, download: name});
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
}
