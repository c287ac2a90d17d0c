// SPDX-License-Identifier: Apache-2.0
// formulas.txt as a module of MathML, by KaTeX: node formulas.cjs formulas.txt > formulas.js
const {readFileSync} = require("node:fs");
const katex = require("katex");

const made = {};
for (const line of readFileSync(process.argv[2], "utf8").split("\n")) {
  if (!line.trim() || line.startsWith("#")) continue;
  const space = line.indexOf(" ");
  const html = katex.renderToString(line.slice(space + 1), {output: "mathml", displayMode: true, throwOnError: true});
  // Only the formula itself: its source in TeX is of no use on the page, and screen readers read MathML.
  made[line.slice(0, space)] = html.replace(/^<span class="katex">|<\/span>$/g, "").replace(/<annotation.*?<\/annotation>/s, "");
}
process.stdout.write(`export default ${JSON.stringify(made, null, 1)};\n`);
