#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Fills .carry/ with what the build needs of others, for machines without packages and network: the headers of Highway, Boost, fmt and nlohmann-json that
# the sources really include, the sources of GoogleTest, and Google Benchmark's header and library where they are for this machine.
set -euo pipefail
cd "$(dirname "$0")/.."
carry=.carry
rm -rf "$carry"
mkdir -p "$carry/include" "$carry/lib"

# Everything that any source includes, by the compiler's own account. Highway picks files by target, so it is copied whole.
list=$(mktemp)
trap 'rm -f "$list"' EXIT
for source in $(find src cli -name '*.cpp') tests/*/*_test.cpp tests/attention/reference/*.cpp bench/*.cpp; do
  [ -e "$source" ] || continue
  g++ -std=c++20 -O2 -fopenmp -DFMT_HEADER_ONLY -Iinclude -Isrc -Itests -I. -M -MG "$source" >> "$list" || echo "make_carry: $source was left out" >&2
done
tr ' \\' '\n\n' < "$list" | grep -E '^/.*/include/(boost|fmt|nlohmann)/' | sort -u | while read -r file; do
  relative=${file##*/include/}
  install -D -m 644 "$file" "$carry/include/$relative"
done

prefix=$(dirname "$(dirname "$(tr ' \\' '\n\n' < "$list" | grep -m1 -E '/include/hwy/highway.h$')")")
cp -rL "$prefix/hwy" "$carry/include/hwy"
rm -rf "$carry/include/hwy/contrib" "$carry/include/hwy/tests"
cp -rL "$prefix/fmt" "$carry/include/"

googletest=${GOOGLETEST:-$prefix/../src/googletest/googletest}
mkdir -p "$carry/googletest"
cp -rL "$googletest/include" "$googletest/src" "$carry/googletest/"

if [ -e "$prefix/benchmark/benchmark.h" ]; then
  cp -rL "$prefix/benchmark" "$carry/include/"
  library=$(readlink -f "$(g++ -print-file-name=libbenchmark.so)")  # the distribution has no static one
  if [ -e "$library" ]; then cp -L "$library" "$carry/lib/$(objdump -p "$library" | sed -n 's/ *SONAME *//p')"; fi
fi
du -sh "$carry" | sed 's/^/make_carry: /'
