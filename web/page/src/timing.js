// SPDX-License-Identifier: Apache-2.0
// How long things take, for whoever measures (tests/web does): work on the main thread by frame, and from a thumb's move to the new picture.

const MOST = 4000;
/** @type {{work: number[], picture: number[], core: number}} milliseconds */
export const timings = {
  work: [],
  picture: [],
  core: 0
};

let spent = 0;
let waiting = false;
let movedAt = 0;

/** @param {number[]} list @param {number} value */
function keep(list, value) {
  if (list.length < MOST) list.push(value);
}

/**
 * Runs it and adds its time to the frame's.
 * @template T @param {() => T} work @returns {T}
 */
export function timed(work) {
  const begun = performance.now();
  try {
    return work();
  } finally {
    spent += performance.now() - begun;
    if (!waiting) {
      waiting = true;
      requestAnimationFrame(() => {
        keep(timings.work, spent);
        spent = 0;
        waiting = false;
      });
    }
  }
}

/** A thumb has moved. */
export function moved() {
  if (!movedAt) movedAt = performance.now();
}

/** The picture that a move asked for is there. */
export function pictured() {
  if (movedAt) keep(timings.picture, performance.now() - movedAt);
  movedAt = 0;
}
