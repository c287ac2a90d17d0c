// SPDX-License-Identifier: Apache-2.0
// What the lab measured on its generated language, as a module: node lab.cjs docs/lab/summary.json > lab.js. `python -m lab report` writes that file; another form of it is an error here.
const {readFileSync} = require("node:fs");

const summary = JSON.parse(readFileSync(process.argv[2], "utf8"));
const {multiples, labels} = summary.language;
const {parts, multiple, labels: over} = summary.over;
const encodings = Object.entries(labels).map(([name, {loss, interval}]) => ({name, loss, interval, over: over[name] ?? null}));
const numbers = [...multiples, ...summary.floor, multiple];
if (numbers.some((value) => !Number.isFinite(value)) || encodings.some(({loss}) => loss.length !== multiples.length))
  throw new Error("docs/lab/summary.json is not understood");
process.stdout.write(`export default ${JSON.stringify({lengths: multiples, parts, over_at: multiple, floor: summary.floor, encodings}, null, 1)};\n`);
