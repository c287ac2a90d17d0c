// SPDX-License-Identifier: Apache-2.0
// What travels between the core, the panels and the charts.

/** A block of numbers, row by row. */
export interface Block {
  shape: number[];
  data: Float64Array | Float32Array;
}

export type Numbers = ArrayLike<number> & Iterable<number>;

export interface Axis {
  label: string;
  log: boolean;
  low?: number;
  high?: number;
}

export interface Curve {
  name: string;
  x: Numbers;
  y: Numbers;
  mark: "line" | "points" | "line and points" | "arrows";
  color?: number;
  dashed?: boolean;
}

export interface Cells {
  label: string;
  rows: string[];
  columns: string[];
  values: Numbers;
  low?: number;
  high?: number;
}

export interface Panel {
  title: string;
  x: Axis;
  y: Axis;
  curves?: Curve[];
  cells?: Cells;
  square?: boolean;
  circle?: number;
  /** Names of clocks: each point of a curve is the hand of one. The page's own; the tool draws clocks as panels. */
  clocks?: string[];
}

/** The Figure JSON of `phasor plot NAME --json`. */
export interface Figure {
  title: string;
  columns: number;
  legend: string[];
  panels: Panel[];
}

export type Spec = Record<string, any>;

/** A model as the core is told about it. */
export type Source = { preset: string } | { config: string } | { config_bytes: { at: number; length: number; size: number } } | { gguf: { size: number; ranges: { offset: number; length: number; at: number }[] } };

export interface LayerGroup {
  tower: string;
  words: string;
  layers: number[];
  type: string;
  label: string;
  describe: string;
  spec: Spec | null;
  numerics: string;
  window: number;
  chunk: number;
  bias: Record<string, any> | null;
  additive: Record<string, any> | null;
}

/** What `model.read` says, and where it came from. */
export interface Model {
  name: string;
  source: Source;
  bytes?: Uint8Array;
  local: boolean;
  model: { dialect: string; model_type: string; layers: number; trained_length: number; length: number; warnings: string[] };
  explain: string;
  spec: Spec | null;
  groups: LayerGroup[];
}

export interface Request {
  method: string;
  [field: string]: unknown;
}
