#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The playground's page: checks types, makes formulas, bundles, draws the first picture, and writes index.html with its files and the single file phasor-playground.html.
# Usage: web/page/build.sh [CORE] [OUT]; CORE holds core.js and phasor.wasm (build/playground/core), OUT gets the page (build/playground/site). Packages: web/page/packages.txt.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
core=$(cd "${1:-$root/build/playground/core}" && pwd)
out=${2:-$root/build/playground/site}
mkdir -p "$out"
out=$(cd "$out" && pwd)
made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT
export NODE_PATH=/usr/share/nodejs

tsc -p "$here"
node "$here/make/formulas.cjs" "$here/formulas.txt" > "$made/formulas.js"
node "$here/make/lab.cjs" "$root/docs/lab/summary.json" > "$made/lab.js"

bundle() { # entry, output, more
  entry=$1 output=$2
  shift 2
  esbuild "$entry" --bundle --minify --charset=utf8 --log-level=warning --outfile="$output" \
    --alias:phasor-core="$core/core.js" --alias:formulas="$made/formulas.js" --alias:lab-results="$made/lab.js" "$@"
}
bundle "$here/src/main.js" "$out/playground.js" --format=iife --target=es2020
bundle "$here/src/worker.js" "$out/worker.js" --format=iife --target=es2020 --define:import.meta.url='"/"'
bundle "$here/style.css" "$out/playground.css"
bundle "$here/make/prerender.js" "$made/prerender.cjs" --platform=node --format=cjs --external:jsdom --define:import.meta.url='"/"'
cp "$core/phasor.wasm" "$out/phasor.wasm"
node "$made/prerender.cjs" "$here/index.html" "$out/phasor.wasm" > "$made/index.html"
node "$here/make/assemble.cjs" "$made/index.html" "$out"
