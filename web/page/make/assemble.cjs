// SPDX-License-Identifier: Apache-2.0
// Puts the page together: index.html beside its files, and one file that holds everything. node assemble.cjs prerendered.html OUT
const {readFileSync, writeFileSync} = require("node:fs");
const {gzipSync} = require("node:zlib");
const {join} = require("node:path");

const [template, out] = process.argv.slice(2);
const read = (name) => readFileSync(join(out, name), "utf8");
const page = readFileSync(template, "utf8");
const put = (text, mark, what) => {
  if (!text.includes(mark)) throw new Error(`index.html has no ${mark}`);
  return text.replace(mark, () => what);
};
/** A script's text inside HTML: the end of a script must not be found in it. */
const inline = (text) => text.replaceAll("</script", "<\\/script").replaceAll("<!--", "<\\!--");

let beside = put(
    page, "<!-- style -->",
    "<link rel=\"stylesheet\" href=\"playground.css\">\n<link rel=\"preload\" href=\"phasor.wasm\" as=\"fetch\" type=\"application/wasm\" crossorigin>");
beside = put(beside, "<!-- script -->", "<script src=\"playground.js\"></script>");
writeFileSync(join(out, "index.html"), beside);

const wasm = gzipSync(readFileSync(join(out, "phasor.wasm")), {level: 9}).toString("base64");
let single = put(page, "<!-- style -->", `<style>${read("playground.css")}</style>`);
single =
    put(single, "<!-- script -->",
        `<script type="text/plain" id="worker-script">${inline(read("worker.js"))}</script>\n<script type="text/plain" id="wasm-gzip">${
            wasm}</script>\n<script>${inline(read("playground.js"))}</script>`);
writeFileSync(join(out, "phasor-playground.html"), single);
