#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What the C API promises to others: bindgen reads its headers, and its binary interface is that of the last release (c/abi), or that and more.
# tools/check_c.sh --record writes c/abi anew: with a release, never to make the check pass.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
folder=build/abi library=build/dev/libphasor.a
baseline=c/abi/phasor_c.abi constants=c/abi/constants.txt
mkdir -p "$folder"

bindgen include/phasor/phasor.h --allowlist-function 'phasor_.*' --allowlist-type 'phasor_.*' --allowlist-var 'PHASOR_.*' -- -Iinclude \
  >"$folder/bindings.rs" 2>"$folder/bindgen.log"
[[ ! -s $folder/bindgen.log ]] || { cat "$folder/bindgen.log" >&2; exit 1; }
echo "c: bindgen reads the headers, $(grep -c 'pub fn phasor_' "$folder/bindings.rs") functions"

# What names of numbers stand for is compiled into programs, and no part of what abidiff sees. Each is written out in the headers.
grep -ohE '\bPHASOR_[A-Z0-9_]+ = -?[0-9]+' include/phasor/c/*.h | LC_ALL=C sort >"$folder/constants.txt"

# Only these files know of the interface, and only their types are looked at.
rm -f "$folder"/*.o
find c -name '*.cpp' -print0 | xargs -0 -P "$(nproc)" -I{} bash -c \
  'ccache "${CXX:-g++}" -std=c++20 -g -O0 -fPIC -fvisibility=hidden -ffp-contract=off -Ic -Iinclude -c {} -o "'"$folder"'/$(tr / _ <<<{}).o"'
"${CXX:-g++}" -shared -Wl,-soname,libphasor_c.so.0 -Wl,--version-script=c/phasor.map -Wl,--exclude-libs,ALL "$folder"/*.o "$library" -lgomp -o "$folder/libphasor_c.so"
abidw --no-corpus-path --no-comp-dir-path --no-show-locs --no-architecture --headers-dir include --drop-private-types --exported-interfaces-only --no-elf-needed "$folder/libphasor_c.so" --out-file "$folder/now.abi"
if [[ ${1:-} == --record ]]; then
  mkdir -p c/abi && cp "$folder/now.abi" "$baseline" && cp "$folder/constants.txt" "$constants" && echo "c: $baseline and $constants are written" && exit 0
fi
lost=$(LC_ALL=C comm -23 "$constants" "$folder/constants.txt")
[[ -z $lost ]] || { printf 'c: these constants are gone or have other values:\n%s\n' "$lost" >&2; exit 1; }
status=0
abidiff --no-architecture "$baseline" "$folder/now.abi" >"$folder/report.txt" || status=$?
# 4: something changed; 8: and programs notice. Structs may grow at their end; what moves, goes or becomes another is a break.
if ((status & ~4)) || grep -qE "offset changed|data member deletion|[1-9][0-9]* Removed|\[D\]|type of .* changed" "$folder/report.txt"; then
  cat "$folder/report.txt" >&2
  echo "c: the binary interface is not that of $baseline" >&2
  exit 1
fi
echo "c: the binary interface is that of the last release$( ((status)) && echo ', with additions')"
