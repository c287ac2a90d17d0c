// SPDX-License-Identifier: Apache-2.0
// The core as the page sees it: questions to a Worker, answers in the order that matters. Of several questions of one channel only the newest is asked, and answers to
// older ones are dropped.

/** @typedef {import("./types").Request} Request */

/** What the library says is wrong. */
export class CoreError extends Error {
  /** @param {{message: string, where?: string, kind?: string}} error */
  constructor(error) {
    super(error.message);
    this.where = error.where || "";
    this.kind = error.kind || "invalid";
  }
}

/** @typedef {{request: Request, bytes?: Uint8Array, done: (answer: any) => void, fail: (error: Error) => void}} Waiting */

export class Core {
  /** @param {Worker} worker */
  constructor(worker) {
    this.worker = worker;
    this.serial = 0;
    /** @type {Map<number, {channel: string, waiting: Waiting}>} */
    this.asked = new Map();
    /** @type {Map<string, number>} the newest question of each channel that the Worker has */
    this.newest = new Map();
    /** @type {Map<string, Waiting>} what a channel asks once the Worker has answered */
    this.next = new Map();
    /** @type {Promise<{milliseconds: number}>} */
    this.ready = new Promise((done, fail) => {
      worker.addEventListener("message", (event) => this.receive(event.data, done, fail));
      worker.addEventListener("error", (event) => fail(new CoreError({message: event.message || "the Worker did not start", kind: "unsupported"})));
    });
  }

  /**
   * The answer, or null when a newer question of the channel has taken its place.
   * @param {string} channel @param {Request} request @param {Uint8Array} [bytes]
   * @returns {Promise<any>}
   */
  ask(channel, request, bytes) {
    return new Promise((done, fail) => {
      const waiting = {request, bytes, done, fail};
      if (!this.newest.has(channel)) return this.send(channel, waiting);
      this.next.get(channel)?.done(null);
      this.next.set(channel, waiting);
    });
  }

  /**
   * Drops what the channel waits for.
   * @param {string} channel
   */
  drop(channel) {
    this.next.get(channel)?.done(null);
    this.next.delete(channel);
  }

  /** @param {string} channel @param {Waiting} waiting */
  send(channel, waiting) {
    this.serial += 1;
    this.asked.set(this.serial, {channel, waiting});
    this.newest.set(channel, this.serial);
    this.worker.postMessage({serial: this.serial, request: waiting.request, bytes: waiting.bytes});
  }

  /** @param {any} message @param {(value: {milliseconds: number}) => void} ready @param {(error: Error) => void} failed */
  receive(message, ready, failed) {
    if (message.ready) return ready({milliseconds: message.milliseconds});
    if (message.failed) return failed(new CoreError(message.failed));
    const asked = this.asked.get(message.serial);
    if (!asked) return;
    this.asked.delete(message.serial);
    const {channel, waiting} = asked;
    this.newest.delete(channel);
    const next = this.next.get(channel);
    this.next.delete(channel);
    if (next) this.send(channel, next);
    if (message.error) waiting.fail(new CoreError(message.error));
    else
      waiting.done(message.result);
  }
}
