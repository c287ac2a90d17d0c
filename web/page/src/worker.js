// SPDX-License-Identifier: Apache-2.0
// The Worker: the library's core behind messages. First the wasm (bytes, or where to fetch it), then questions.
import {makeCore} from "phasor-core";

/** @type {{call: (request: object, bytes?: Uint8Array) => any, transferables: (answer: any) => ArrayBuffer[]} | undefined} */
let core;
const scope = /** @type {any} */ (self);

/** @param {unknown} problem */
function words(problem) {
  const error = /** @type {{message?: string, where?: string, kind?: string}} */ (problem);
  return {message: error.message || String(problem), where: error.where || "", kind: error.kind || "invalid"};
}

/** @param {ArrayBuffer | string} wasm */
async function start(wasm) {
  const begun = performance.now();
  try {
    core = await makeCore({wasm});
    scope.postMessage({ready: true, milliseconds: performance.now() - begun});
  } catch (problem) {
    scope.postMessage({failed: {...words(problem), kind: "unsupported"}});
  }
}

/** @param {{serial: number, request: object, bytes?: Uint8Array}} message */
function answer({serial, request, bytes}) {
  try {
    if (!core) throw new Error("the core is not there");
    const result = core.call(request, bytes);
    scope.postMessage({serial, result}, core.transferables(result));
  } catch (problem) {
    scope.postMessage({serial, error: words(problem)});
  }
}

scope.addEventListener("message", (/** @type {MessageEvent} */ event) => {
  if (event.data.wasm !== undefined) void start(event.data.wasm);
  else
    answer(event.data);
});
