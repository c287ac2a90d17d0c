// SPDX-License-Identifier: Apache-2.0
// The tables of docs/lab.md as a module: node lab.cjs docs/lab.md > lab.js. The page shows what was recorded there; a table that changes its form is an error here.
const {readFileSync} = require("node:fs");

const lines = readFileSync(process.argv[2], "utf8").split("\n");
const cells = (line) => line.split("|").slice(1, -1).map((cell) => cell.trim());

/** Rows below the head that begins so, without the line of dashes. */
function table(head) {
  const at = lines.findIndex((line) => line.startsWith(`| ${head}`));
  if (at < 0) throw new Error(`docs/lab.md has no table that begins with "${head}"`);
  const rows = [];
  for (let i = at + 2; lines[i]?.startsWith("|"); i += 1) rows.push(cells(lines[i]));
  return {head: cells(lines[at]), rows};
}

/** "1.813 (0.005)", or "error" for what the library refuses. */
function measured(text) {
  if (text === "error") return [null, null];
  const found = /^([0-9.]+)(?: \(([0-9.]+)\))?$/.exec(text);
  if (!found) throw new Error(`docs/lab.md: "${text}" is no loss`);
  return [Number(found[1]), found[2] === undefined ? null : Number(found[2])];
}

const losses = table("encoding ");
const parts = table("over the floor");
const lengths = losses.head.slice(1).map((name) => Number(name.replace("x", "")));
const names = parts.head.slice(1);
const over = new Map(parts.rows.map(([name, ...values]) => [name, Object.fromEntries(values.map((value, i) => [names[i], Number(value)]))]));
const encodings = losses.rows.filter(([name]) => name !== "floor").map(([name, ...values]) => ({
                                                                         name,
                                                                         loss: values.map((value) => measured(value)[0]),
                                                                         deviation: values.map((value) => measured(value)[1]),
                                                                         over: over.get(name) ?? null
                                                                       }));
const floor = losses.rows.find(([name]) => name === "floor").slice(1).map(Number);
if ([...lengths, ...floor].some((value) => !Number.isFinite(value)) || encodings.length < 2)
  throw new Error("docs/lab.md: the table of losses is not understood");
process.stdout.write(`export default ${JSON.stringify({lengths, parts: names, floor, encodings, note: ""}, null, 1)};\n`);
