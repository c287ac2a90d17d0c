#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Attention of two checkouts side by side: tools/attention_compare.sh OLD [FILTER]. Builds both libraries with g++, links the benchmark of
# this checkout with each, runs them in turns on every target of the machine, and prints medians in milliseconds, new over old, and what the
# issues ask for: schemes over plain, decoding over reading the cache. OLD: a directory, say from `git archive COMMIT | tar x -C OLD`.
# Headers and libraries come from .carry (tools/make_carry.sh) where it is, else from the system. ROUNDS: 9.
set -euo pipefail
cd "$(dirname "$0")/.."
old=${1:?attention_compare: the older checkout is missing}
filter=${2:-'fma_peak|read_cache|decode|forward/(plain|alibi|t5|transformer_xl)'}
build=build/compare
mkdir -p "$build"
flags=(-std=c++20 -O3 -DNDEBUG -ffp-contract=off -fno-tree-vectorize -fno-tree-slp-vectorize -DFMT_HEADER_ONLY '-DPHASOR_VERSION="compare"')
[ -d .carry/include ] && flags+=(-isystem "$PWD/.carry/include")
benchmark=(-lbenchmark)
[ -d .carry/lib ] && benchmark=("$(ls .carry/lib/libbenchmark.so* | head -1)" "-Wl,-rpath,$PWD/.carry/lib")

# build_tree NAME TREE: the library of a tree and the benchmark of this checkout on it.
build_tree() {
  local name=$1 tree=$2
  rm -rf "${build:?}/$name"  # an object of a source that is gone would be linked
  mkdir -p "$build/$name"
  find "$tree/src" -name "*.cpp" | xargs -P "$(nproc)" -I{} bash -c \
    'to=$1/$(echo "$0" | tr / _).o; shift; g++ "$@" -c "$0" -o "$to"' {} "$build/$name" "${flags[@]}" -I"$tree/include" -I"$tree/src"
  ar rcs "$build/$name/libphasor.a" "$build/$name"/*.o
  g++ "${flags[@]}" -ftree-vectorize -I"$tree/include" -Ibench bench/attention_bench.cpp "$build/$name/libphasor.a" "${benchmark[@]}" -lpthread -o "$build/bench_$name"
}
build_tree old "$old"
build_tree new .

python3 - "$build" "$filter" "${ROUNDS:-9}" <<'PY'
import collections, os, statistics, subprocess, sys

build, chosen, rounds = sys.argv[1], sys.argv[2], int(sys.argv[3])


def run(tree, target):
    command = [f"{build}/bench_{tree}", f"--benchmark_filter={chosen}", "--benchmark_min_time=0.03"]
    done = subprocess.run(command, env={**os.environ, "PHASOR_TARGET": target}, capture_output=True, text=True)
    if done.returncode != 0 and f"PHASOR_TARGET is '{target}'" not in done.stdout + done.stderr:  # that is what a machine without the target says
        sys.exit(f"attention_compare: bench_{tree} on {target} ended with status {done.returncode}\n{done.stdout}{done.stderr}")
    rows = (line.split() for line in done.stdout.splitlines() if line.startswith("attention/"))
    return {row[0][10:]: float(row[3]) / 1e6 for row in rows if "ERROR" not in row[1]}


def reference(name):
    parts = name.split("/")
    if parts[0] == "decode":
        return f"read_cache/{parts[1]}"
    return "/".join([parts[0], "plain", *parts[2:]]) if len(parts) > 2 and parts[1] != "plain" else None


for target in ("avx512", "avx2", "neon"):
    times = collections.defaultdict(list)
    for _ in range(rounds):
        for tree in ("old", "new"):
            for name, value in run(tree, target).items():
                times[tree, name].append(value)
    medians = {key: statistics.median(values) for key, values in times.items()}
    if all(name.startswith("read_cache") for _, name in medians):  # this machine lacks the target
        continue
    print(f"{target}: milliseconds old, new, new / old; over plain or over reading the cache: old, new")
    for tree, name in medians:
        if tree != "new" or ("old", name) not in medians:
            continue
        is_old, is_new, beside = medians["old", name], medians["new", name], reference(name)
        over = f"{is_old / medians['old', beside]:8.3f}{is_new / medians['new', beside]:8.3f}" if ("old", beside) in medians else ""
        print(f"  {name:48}{is_old:10.3f}{is_new:10.3f}{is_new / is_old:8.3f}{over}")
PY
