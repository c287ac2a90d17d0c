#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the library with g++ from the checkout and .carry/ (tools/make_carry.sh), runs the portable tests, those of attention and the hash on
# every target this machine has, and times the kernels. For AVX-512 machines without packages. Results under $OUT (default ./out); object files in build/carried.
set -uo pipefail
cd "$(dirname "$0")/.."
out=${OUT:-out}
build=build/carried
jobs=$(nproc)
mkdir -p "$out" "$build"
[ -d .carry/include ] || { echo "x86_bench: .carry is missing; run tools/make_carry.sh where the packages are" >&2; exit 2; }

# As cmake/compile.cmake: contraction off, and off also where g++ 12 forgets it (its vectoriser).
flags=(-std=c++20 -O3 -fPIC -ffp-contract=off -fno-tree-vectorize -fno-tree-slp-vectorize -fopenmp -DFMT_HEADER_ONLY
       "-DPHASOR_VERSION=\"$(sed -n 's/^project(phasor VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)\""
       "-DGOLDEN_DIR=\"$PWD/tests/golden\""  # for tests/golden_file.cpp
       -Iinclude -Isrc -Itests -Ibench -isystem .carry/include -isystem .carry/googletest/include
       -I.carry/googletest)
failed=0
say() { printf '%s\n' "$*" | tee -a "$out/summary.txt"; }

# compile <prefix> <sources...>: objects $build/<prefix>_*.o, in parallel; the longest ones first would not matter with one of them.
compile() {
  local prefix=$1
  shift
  printf '%s\n' "$@" | xargs -P "$jobs" -I{} bash -c 'to=$1/$2_$(echo "$3" | tr / _).o; shift 3; g++ "$@" -c "$0" -o "$to"' {} "$build" "$prefix" {} "${flags[@]}" \
    > "$build/$prefix.log" 2>&1 || { say "FAIL: $prefix does not build"; tail -30 "$build/$prefix.log"; exit 1; }
}

build_library() {
  rm -f "$build"/*.o "$build"/*.a
  compile library $(find src -name '*.cpp')
  ar rcs "$build/libphasor.a" "$build"/library_*.o
}

# run_program NAME SOURCES...: compiles tests, runs them in as many processes as there are cores, and says which were skipped and why: a kernel that
# this machine cannot run is not tested here.
run_program() {
  local name=$1 log=$out/$1.txt shard pids=() ok=1
  shift
  compile "$name" "$@"
  g++ "$build/$name"_*.o "$build"/golden_*.o "$build"/googletest_*.o "$build/libphasor.a" -fopenmp -lpthread -o "$build/$name" || { say "FAIL: $name does not link"; exit 1; }
  for ((shard = 0; shard < jobs; ++shard)); do
    GTEST_TOTAL_SHARDS=$jobs GTEST_SHARD_INDEX=$shard OMP_WAIT_POLICY=passive "$build/$name" > "$build/$name.$shard.txt" 2>&1 &
    pids+=($!)
  done
  for shard in "${pids[@]}"; do wait "$shard" || ok=0; done
  for ((shard = 0; shard < jobs; ++shard)); do cat "$build/$name.$shard.txt"; done > "$log"
  # A shard without tests says nothing of any; one that died says what it ran and not that it ended.
  local begun ended passed
  begun=$(grep -cE '^\[ RUN      \] ' "$log")
  ended=$(grep -cE '^\[ +(OK|FAILED|SKIPPED) +\] .*\([0-9]+ ms\)$' "$log")
  passed=$(sed -nE 's/^\[  PASSED  \] ([0-9]+) tests?\.$/\1/p' "$log" | awk '{ sum += $1 } END { print sum + 0 }')
  if [ "$ok" = 1 ] && [ "$begun" = "$ended" ] && [ "$passed" -gt 0 ]; then say "pass: $name: $passed of $begun tests"; else
    failed=1
    say "FAIL: $name: $passed of $begun tests passed, $ended ended"
    grep -E '^\[  FAILED  \] [^0-9].*\(' "$log" | sort -u | head -40
  fi
  if grep -q ': Skipped$' "$log"; then
    say "NOT RUN: $name: $(grep -cE '^\[  SKIPPED \] .*ms\)$' "$log") tests: $(grep -A1 ': Skipped$' "$log" | grep -vE ': Skipped$|^--' | sort -u | paste -sd';')"
  fi
}

# The tests that need neither MPFR nor RapidCheck.
run_tests() {
  local sources library_flags=("${flags[@]}")
  flags+=(-O1)  # what is tested is the library; its tests are to build fast
  compile googletest .carry/googletest/src/gtest-all.cc .carry/googletest/src/gtest_main.cc
  compile golden tests/golden_file.cpp
  mapfile -t sources < <(ls tests/{math,spec,spec/*,plan,job,cpu,cuda,prepare,backend,ops,ops/*,analysis,surface}/*_test.cpp 2> /dev/null | grep -v _oracle_test)
  run_program phasor_tests "${sources[@]}" tests/cuda/random_calls.cpp tests/cuda/random_operations.cpp
  run_program phasor_attention_tests tests/attention/{,terms/,reference_tests/,support/,reference/}*.cpp
  flags=("${library_flags[@]}")
  "$build/phasor_tests" --gtest_filter='Hash.*' | grep -E '^\[ +(OK|FAILED) ' | sed 's/^/hash: /'
}

run_bench() {
  if ! ls bench/*.cpp > /dev/null 2>&1 || ! ls .carry/lib/libbenchmark.so* > /dev/null 2>&1; then
    say "bench: not here"
    return
  fi
  flags+=(-ftree-vectorize)  # the ceilings, as a user would compile them
  local name source
  for source in bench/*.cpp; do
    name=$(basename "$source" .cpp)
    compile "bench_$name" "$source"
    if ! g++ "$build/bench_$name"_*.o "$build/libphasor.a" .carry/lib/libbenchmark.so* "-Wl,-rpath,$PWD/.carry/lib" -fopenmp -lpthread -o "$build/$name" 2> "$build/bench_link.log"; then
      say "bench: $name does not link here: $(tail -1 "$build/bench_link.log")"
      continue
    fi
    timeout "${BENCH_SECONDS:-240}" "$build/$name" --benchmark_min_time="${BENCH_MIN_TIME:-0.03}" --benchmark_repetitions=5 --benchmark_enable_random_interleaving=true --benchmark_out="$out/$name.json" --benchmark_out_format=json > "$out/$name.txt" 2>&1 ||
      say "bench: $name stopped (status $?)"
    say "bench: $name: $(grep -c '"name"' "$out/$name.json" 2> /dev/null) entries"
    python3 tools/bench_table.py "$out/$name.json" | tee "$out/${name}_table.txt"
  done
}

if [ -n "${BENCH_ONLY:-}" ]; then  # after a run with --no-bench
  run_bench
  exit 0
fi
: > "$out/summary.txt"
say "cpu: $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1), $jobs cores, $(g++ --version | head -1)"
grep -qw avx512bw /proc/cpuinfo && say "cpu: has AVX-512" || say "cpu: has no AVX-512"
grep -qw amx_bf16 /proc/cpuinfo && say "cpu: has AMX" || say "cpu: has no AMX"
build_library
run_tests
[ "${1:-}" = --no-bench ] || run_bench
exit "$failed"
