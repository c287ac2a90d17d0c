// SPDX-License-Identifier: Apache-2.0
// Types of what comes from elsewhere: the parts of d3 that are used, the core's module, what the build puts in.

declare module "d3-scale" {
  export interface Scale {
    (value: number): number;
    invert(value: number): number;
    domain(): number[];
    domain(values: number[]): this;
    range(): number[];
    range(values: number[]): this;
    nice(count?: number): this;
    ticks(count?: number): number[];
    copy(): this;
    clamp(clamp: boolean): this;
  }
}

declare module "d3-scale/src/linear" {
  export default function scaleLinear(): import("d3-scale").Scale;
}

declare module "d3-scale/src/log" {
  export default function scaleLog(): import("d3-scale").Scale;
}

declare module "d3-axis" {
  export interface Axis {
    (selection: import("d3-selection").Selection): void;
    ticks(count: number): this;
    tickValues(values: number[]): this;
    tickFormat(format: (value: number) => string): this;
    tickSize(size: number): this;
    tickSizeOuter(size: number): this;
    tickPadding(padding: number): this;
  }
  export function axisBottom(scale: import("d3-scale").Scale): Axis;
  export function axisLeft(scale: import("d3-scale").Scale): Axis;
}

declare module "d3-shape" {
  export interface Line {
    (points: ArrayLike<number>): string | null;
    x(x: (value: number, index: number) => number): this;
    y(y: (value: number, index: number) => number): this;
    defined(defined: (value: number, index: number) => boolean): this;
  }
  export function line(): Line;
  export interface SymbolShape {
    (): string | null;
    type(type: object): this;
    size(size: number): this;
    context(context: object): this;
  }
  export function symbol(): SymbolShape;
  export const symbols: object[];
}

declare module "d3-selection" {
  export interface Selection {
    append(tag: string): Selection;
    attr(name: string, value: unknown): Selection;
    call(function_: (selection: Selection) => void): Selection;
    classed(name: string, on: boolean): Selection;
    data(data: unknown[], key?: (datum: any, index: number) => unknown): Selection;
    each(function_: (this: Element, datum: any, index: number) => void): Selection;
    enter(): Selection;
    exit(): Selection;
    join(tag: string): Selection;
    merge(other: Selection): Selection;
    node(): Element | null;
    remove(): Selection;
    select(selector: string): Selection;
    selectAll(selector: string): Selection;
    text(value: unknown): Selection;
  }
  export function select(node: Element): Selection;
}

declare module "phasor-core" {
  export function makeCore(options: { wasm: ArrayBuffer | string }): Promise<{
    call: (request: object, bytes?: Uint8Array) => any;
    transferables: (answer: any) => ArrayBuffer[];
  }>;
}

declare module "lab-results" {
  const results: {
    lengths: number[];
    parts: string[];
    over_at: number;
    floor: number[];
    encodings: { name: string; loss: (number | null)[]; interval: (number | null)[]; over: Record<string, number> | null }[];
  };
  export default results;
}
declare module "formulas" {
  const formulas: Record<string, string>;
  export default formulas;
}

// Newer than this compiler's list of what browsers have.
declare class CompressionStream extends TransformStream<Uint8Array, Uint8Array> {
  constructor(format: "deflate-raw");
}
declare class DecompressionStream extends TransformStream<Uint8Array, Uint8Array> {
  constructor(format: "deflate-raw" | "gzip");
}
