// SPDX-License-Identifier: Apache-2.0
// Plays a position from 0 to the end of its slider: slowly at first, ten times as fast with every few seconds. Where motion is unwelcome it goes in steps.
import {button} from "./controls.js";
import {setText} from "./dom.js";
import {say} from "./words.js";

const SECONDS = 24;
const CALM_STEPS = 12;

export class Player {
  /** @param {import("./app.js").App} app @param {import("./controls.js").Slider} slider @param {import("./state.js").Key} key */
  constructor(app, slider, key) {
    this.app = app;
    this.slider = slider;
    this.key = key;
    this.playing = false;
    const made = button("play", () => (this.playing ? this.stop() : this.play()), "play");
    this.element = made.element;
    slider.range.addEventListener("pointerdown", () => this.stop());
    slider.range.addEventListener("keydown", () => this.stop());
    this.show();
  }

  show() {
    setText(this.element, say(this.playing ? "pause" : "play"));
    this.element.setAttribute("aria-pressed", String(this.playing));
  }

  /** @param {{seconds: number, last: number}} [wanted] to where, and how fast; the slider's end otherwise */
  play(wanted) {
    this.playing = true;
    this.show();
    const calm = window.matchMedia("(prefers-reduced-motion: reduce)").matches;
    const {seconds, last: most} = wanted || {seconds: SECONDS, last: Number(this.slider.high)};
    const value = Number(this.app.state.get(this.key));
    let share = value >= most || value < 1 ? 0 : Math.log(value) / Math.log(most);
    let last = performance.now();
    const turn = (/** @type {number} */ now) => {
      if (!this.playing) return;
      if (calm) {
        if (now - last >= 1500) [share, last] = [share + 1 / CALM_STEPS, now];
      } else
        [share, last] = [share + (now - last) / 1000 / seconds, now];
      const over = share >= 1;
      this.app.state.set(this.key, over ? most : Math.round(most ** share));
      this.slider.show();
      this.slider.changed(!over);
      if (over) this.stop();
      else
        requestAnimationFrame(turn);
    };
    requestAnimationFrame(turn);
  }

  stop() {
    if (!this.playing) return;
    this.playing = false;
    this.show();
    this.slider.changed(false);
  }
}
