#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Fills .carry/ with what the build needs of others, for x86-64 machines without packages and network: the headers of Highway, Boost, fmt and nlohmann-json
# that the sources really include there, the sources of GoogleTest and nanobind, and Google Benchmark's header and library. From any Debian or Ubuntu machine: elsewhere
# than on x86-64 it asks x86_64-linux-gnu-g++, and takes that library from the distribution's amd64 package, unpacked and not installed.
set -euo pipefail
cd "$(dirname "$0")/.."
carry=.carry
rm -rf "$carry"
mkdir -p "$carry/include" "$carry/lib"

compiler=(g++)
[ "$(uname -m)" = x86_64 ] || compiler=(x86_64-linux-gnu-g++ -idirafter /usr/include)

# Everything that any source includes, by the compiler's own account. Highway picks files by target, so it is copied whole.
scratch=$(mktemp -d)
list=$scratch/list
trap 'rm -rf "$scratch"' EXIT
for source in $(find src cli -name '*.cpp') $(find tests -name "*_test.cpp") tests/attention/{support,reference}/*.cpp bench/*.cpp examples/engine/*.cpp; do
  [ -e "$source" ] || continue
  "${compiler[@]}" -std=c++20 -O2 -fopenmp -DFMT_HEADER_ONLY -Iinclude -Isrc -Itests -I. -M -MG "$source" >> "$list" || echo "make_carry: $source was left out" >&2
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

# nanobind's sources, for the Python module of tools/gpu_python.sh.
nanobind=$("${PYTHON:-build/venv/bin/python}" -c 'import nanobind, pathlib; print(pathlib.Path(nanobind.__file__).parent)' 2>/dev/null || true)
if [ -n "$nanobind" ]; then
  mkdir -p "$carry/nanobind/ext/robin_map"
  cp -rL "$nanobind/include" "$nanobind/src" "$carry/nanobind/"
  cp -rL "$nanobind/ext/robin_map/include" "$carry/nanobind/ext/robin_map/"
else
  echo "make_carry: no nanobind (make test makes build/venv, PYTHON names another), so no Python module there" >&2
fi

# amd64_package NAME FOLDER: the distribution's package of that name for x86-64, unpacked. apt's lists and cache of this machine stay as they are.
amd64_package() {
  local apt=(-q -o APT::Architecture=amd64 -o APT::Architectures=amd64 -o APT::Sandbox::User=root -o "Dir::State=$scratch/apt" -o "Dir::State::status=/dev/null" -o "Dir::Cache=$scratch/apt")
  mkdir -p "$scratch/apt/lists/partial" "$scratch/apt/archives/partial" "$2"
  apt-get "${apt[@]}" update && (cd "$scratch" && apt-get "${apt[@]}" download "$1") && dpkg-deb -x "$scratch/$1"_*.deb "$2"
}

# The distribution has no static one.
if [ -e "$prefix/benchmark/benchmark.h" ]; then
  cp -rL "$prefix/benchmark" "$carry/include/"
  library=$(readlink -f "$(g++ -print-file-name=libbenchmark.so)")
  if [ "$(uname -m)" != x86_64 ]; then
    package=$(dpkg -S "$library" | cut -d: -f1)
    amd64_package "$package" "$scratch/amd64" > "$scratch/apt.log" 2>&1 || { cat "$scratch/apt.log" >&2; echo "make_carry: no amd64 package of $package, so no benchmarks there" >&2; }
    library=$(find "$scratch/amd64" -name "$(basename "$library")" 2>/dev/null | head -1)
  fi
  if [ -e "$library" ]; then cp -L "$library" "$carry/lib/$(readelf -d "$library" | sed -n 's/.*(SONAME).*\[\(.*\)\]/\1/p')"; fi
fi
du -sh "$carry" | sed 's/^/make_carry: /'
