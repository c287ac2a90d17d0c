// SPDX-License-Identifier: Apache-2.0
// Models as files and texts: of a GGUF file the core says which ranges it needs, so that only its head is read; a config can travel in a link.

/** @typedef {import("./types").Source} Source */
/** @typedef {import("./core.js").Core} Core */

const FIRST = 65536;
const MOST_CONFIG = 4 << 20;  // as a text, which a link can hold
const MOST_FILE = 64 << 20;   // as bytes
const MOST_ROUNDS = 64;

/**
 * Reads a model to its end.
 * @param {Core} core @param {Source} source @param {Blob} [file] of a source that is no text
 */
export async function readSource(core, source, file) {
  if ("config_bytes" in source) {
    const bytes = new Uint8Array(await /** @type {Blob} */ (file).slice(0, source.config_bytes.length).arrayBuffer());
    return {answer: await core.ask("model", {method: "model.read", source}, bytes), source, bytes};
  }
  if (!("gguf" in source)) return {answer: await core.ask("model", {method: "model.read", source}), source, bytes: undefined};
  const reader = new Ranges(/** @type {Blob} */ (file));
  let need = [{offset: 0, length: FIRST}];
  for (let round = 0; round < MOST_ROUNDS; round += 1) {
    await reader.add(need);
    const whole = reader.source();
    const answer = await core.ask("model", {method: "model.read", source: whole}, reader.bytes);
    if (!answer?.need) return {answer, source: whole, bytes: reader.bytes};
    need = answer.need;
  }
  throw new Error("the file's head has no end");
}

/** The parts of a file that were wanted, one after the other. */
class Ranges {
  /** @param {Blob} file */
  constructor(file) {
    this.file = file;
    this.bytes = new Uint8Array(0);
    /** @type {{offset: number, length: number, at: number}[]} */
    this.ranges = [];
  }

  /** @param {{offset: number, length: number}[]} wanted */
  async add(wanted) {
    for (const {offset, length} of wanted) {
      const end = Math.min(offset + length, this.file.size);
      if (end <= offset && this.ranges.length) continue;
      const part = new Uint8Array(await this.file.slice(offset, end).arrayBuffer());
      const all = new Uint8Array(this.bytes.length + part.length);
      all.set(this.bytes);
      all.set(part, this.bytes.length);
      this.ranges.push({offset, length: part.length, at: this.bytes.length});
      this.bytes = all;
    }
  }

  /** @returns {Source} */
  source() { return {gguf: {size: this.file.size, ranges: this.ranges}}; }
}

/**
 * What a dropped file is: GGUF by its first bytes, a config otherwise. One that is no text goes to the core as it is, which says what is wrong with it.
 * @param {Blob} file @returns {Promise<Source>}
 */
export async function sourceOf(file) {
  const head = new Uint8Array(await file.slice(0, 4).arrayBuffer());
  if (String.fromCharCode(...head) === "GGUF") return {gguf: {size: file.size, ranges: []}};
  const text = file.size <= MOST_CONFIG ? textOf(await file.arrayBuffer()) : "";
  if (text) return {config: text};
  return {config_bytes: {at: 0, length: file.size <= MOST_FILE ? file.size : 0, size: file.size}};
}

/**
 * Empty where they are no text.
 * @param {ArrayBuffer} bytes
 */
function textOf(bytes) {
  try {
    return new TextDecoder("utf-8", {fatal: true, ignoreBOM: true}).decode(bytes);
  } catch {
    return "";
  }
}

/** @param {Uint8Array} bytes */
const toLink = (bytes) =>
    btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join("")).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");

/**
 * A text small enough for a link.
 * @param {string} text
 */
export async function shareText(text) {
  const packed = new Blob([text]).stream().pipeThrough(new CompressionStream("deflate-raw"));
  return toLink(new Uint8Array(await new Response(packed).arrayBuffer()));
}

/** @param {string} link */
export async function unshareText(link) {
  const bytes = Uint8Array.from(atob(link.replaceAll("-", "+").replaceAll("_", "/")), (c) => c.charCodeAt(0));
  const reader = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw")).getReader();
  const decoder = new TextDecoder();
  let text = "";
  for (;;) {
    const {done, value} = await reader.read();
    if (done) return text;
    text += decoder.decode(value, {stream: true});
    if (text.length > MOST_CONFIG) throw new Error("the config in the link is too long");  // a small link can unpack to anything
  }
}
