// SPDX-License-Identifier: Apache-2.0
// The loader of the core: a request in, an answer with typed arrays out. API.md is the contract. Nothing else is needed beside phasor.wasm,
// so that it works in a Worker, in one made of a Blob, in a page and in Node.

/** An answer that is an error, in the library's own words. */
export class CoreError extends Error {
  /** @param {{message: string, where?: string, kind?: string}} error */
  constructor(error) {
    super(error.message);
    this.name = "CoreError";
    this.where = error.where ?? "";
    this.kind = error.kind ?? "invalid";
  }
}

// A module of one function that has a vector in it, and one that throws: whoever cannot validate both cannot run the core.
const SIMD = new Uint8Array([0, 97, 115, 109, 1, 0, 0, 0, 1, 5, 1, 96, 0, 1, 123, 3, 2, 1, 0, 10, 10, 1, 8, 0, 65, 0, 253, 15, 253, 98, 11]);
const EXCEPTIONS = new Uint8Array([0, 97, 115, 109, 1, 0, 0, 0, 1, 4, 1, 96, 0, 0, 3, 2, 1, 0, 10, 8, 1, 6, 0, 6, 64, 25, 11, 11]);

/** Why this browser cannot run the core, or "" where it can. */
export function missing() {
  if (typeof WebAssembly !== "object") return "This browser has no WebAssembly.";
  if (!WebAssembly.validate(SIMD)) return "This browser's WebAssembly has no SIMD.";
  return WebAssembly.validate(EXCEPTIONS) ? "" : "This browser's WebAssembly has no exceptions.";
}

/**
 * @param {string | ArrayBuffer | Uint8Array} wasm a URL to fetch, or the bytes of phasor.wasm
 * @returns {Promise<ArrayBuffer | Uint8Array>}
 */
async function bytesOf(wasm) {
  if (typeof wasm !== "string") return wasm;
  const response = await fetch(wasm);
  if (!response.ok) throw new CoreError({ message: `${wasm} cannot be fetched: ${response.status}`, kind: "not_found" });
  return response.arrayBuffer();
}

/**
 * Blocks in their places: {block, type, shape} becomes {shape, data}, a copy out of the heap.
 * @param {any} value
 * @param {(index: number, type: string) => Float32Array | Float64Array} block
 * @returns {any}
 */
function expanded(value, block) {
  if (value === null || typeof value !== "object") return value;
  if (typeof value.block === "number") return { shape: value.shape, data: block(value.block, value.type) };
  for (const key of Object.keys(value)) value[key] = expanded(value[key], block);
  return value;
}

/**
 * Every ArrayBuffer of an answer.
 * @param {any} value
 * @param {ArrayBuffer[]} found
 */
function transferables(value, found = []) {
  if (value === null || typeof value !== "object") return found;
  if (ArrayBuffer.isView(value)) found.push(/** @type {ArrayBuffer} */ (value.buffer));
  else for (const member of Object.values(value)) transferables(member, found);
  return found;
}

// What the module asks of its surroundings. It has no files, no clock and no environment: whatever else it asks for is a mistake.
const SURROUNDINGS = {
  emscripten_notify_memory_growth() {},
  environ_sizes_get: (/** @type {number} */ _count, /** @type {number} */ _bytes) => 52, // ENOSYS: there are none
  environ_get: () => 52,
  fd_write: () => 52,
  fd_read: () => 52,
  fd_close: () => 52,
  fd_seek: () => 52,
};

/**
 * @param {WebAssembly.Module} module
 * @returns {WebAssembly.Imports}
 */
function surroundings(module) {
  /** @type {Record<string, Record<string, Function>>} */
  const imports = {};
  for (const { module: from, name } of WebAssembly.Module.imports(module)) {
    imports[from] = imports[from] || {};
    imports[from][name] = /** @type {any} */ (SURROUNDINGS)[name] || (() => {
      throw new CoreError({ message: `the core asked for ${name}`, kind: "unsupported" });
    });
  }
  return /** @type {any} */ (imports);
}

/**
 * @param {{wasm: string | ArrayBuffer | Uint8Array}} options
 */
export async function makeCore({ wasm }) {
  const reason = missing();
  if (reason) throw new CoreError({ message: reason, kind: "unsupported" });
  const module = await WebAssembly.compile(/** @type {any} */ (await bytesOf(wasm)));
  const instance = await WebAssembly.instantiate(module, surroundings(module));
  const core = /** @type {any} */ (instance.exports);
  core._initialize();
  const encoder = new TextEncoder();
  const decoder = new TextDecoder();

  /** The heap may have grown: views are made anew after every call. */
  const heap = () => new Uint8Array(core.memory.buffer);

  /** @param {Uint8Array} source */
  function put(source) {
    const at = core.phasor_web_allocate(source.length);
    if (!at) throw new CoreError({ message: "out of memory", kind: "out_of_memory" });
    heap().set(source, at);
    return at;
  }

  /**
   * @param {number} index
   * @param {string} type
   */
  function block(index, type) {
    const at = core.phasor_web_block(index);
    const { buffer } = heap().slice(at, at + core.phasor_web_block_bytes(index));
    return type === "f32" ? new Float32Array(buffer) : new Float64Array(buffer);
  }

  /**
   * @param {object} request
   * @param {Uint8Array} [attached]
   */
  function call(request, attached = new Uint8Array(0)) {
    const text = encoder.encode(JSON.stringify(request));
    const textAt = put(text);
    const attachedAt = put(attached);
    const failed = core.phasor_web_call(textAt, text.length, attachedAt, attached.length);
    core.phasor_web_release(textAt);
    core.phasor_web_release(attachedAt);
    const at = core.phasor_web_response();
    const answer = JSON.parse(decoder.decode(heap().subarray(at, at + core.phasor_web_response_bytes())));
    if (failed) throw new CoreError(answer.error);
    return expanded(answer.result, block);
  }

  return { call, transferables: (/** @type {any} */ answer) => transferables(answer) };
}
