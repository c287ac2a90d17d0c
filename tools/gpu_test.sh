#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the library with its CUDA backend from the checkout and .carry/ (tools/make_carry.sh) by g++ and nvcc, runs every GPU test and times
# the kernels: for machines with a GPU and without packages. Results under $OUT (default ./out), objects in build/gpu. A table comes last.
#   gpu_test.sh [--sanitizers]
# --sanitizers: compute-sanitizer's part alone, some minutes. QUICK=1: all but it. CHECK_SECONDS: the most that one of its runs may take (240).
set -uo pipefail
case ${1:-} in
  '' | --sanitizers) only=${1:-} ;;
  *) echo "gpu_test: there is no option $1" >&2; sed -n 's/^#   /usage: /p' "$0" >&2; exit 2 ;;
esac
cd "$(dirname "$0")/.."
out=${OUT:-out} build=build/gpu jobs=$(nproc) python=${PYTHON:-python3}
mkdir -p "$out" "$build"
nvidia-smi -L || { echo "gpu_test: there is no GPU" >&2; exit 2; }
failed=0
say() { printf '%s\n' "$*" | tee -a "$out/summary.txt"; }

. tools/gpu_build.sh
gpu_build

links=()
program() { # NAME OBJECTS...
  { "$nvcc" "-arch=sm_${CUDA_ARCH:-90}" "${@:2}" "${backend[@]}" "$build/libphasor.a" -lgomp -o "$build/$1" || { say "FAIL: $1 does not link"; exit 1; }; } &
  links+=($!)
}
program gpu_rotary "$build/tests_cuda_gpu_rotary.cu.o" "$build/tests_cuda_random_calls.cpp.o"
program gpu_operations "$build/tests_cuda_gpu_operations.cu.o" "$build/tests_cuda_random_calls.cpp.o" "$build/tests_cuda_random_operations.cpp.o"
program gpu_prepare "$build/tests_cuda_gpu_prepare.cu.o"
program gpu_hopper "$build/tests_cuda_attention_gpu_hopper.cu.o"
program gpu_mma "$build/tests_cuda_attention_gpu_mma.cu.o"
program gpu_rotated "$build/tests_cuda_attention_gpu_rotated.cu.o"
program gpu_hopper_backward "$build/tests_cuda_attention_gpu_hopper_backward.cu.o"
program gpu_decode "$build/tests_cuda_attention_gpu_decode.cu.o"
program gpu_large "$build/tests_cuda_gpu_large.cu.o"
program gpu_rows "$build/tests_cuda_gpu_rows.cu.o" "$build/tests_cuda_random_calls.cpp.o"
program gpu_attention "$build/tests_cuda_attention_gpu_attention.cpp.o" "$build"/tests_attention_*.o "$build/.carry_googletest_src_gtest-all.cc.o"
program cuda_proof "$build/tests_cuda_proof.cu.o"
program rotary_bench "$build/bench_gpu_rotary_bench.cu.o"
program gpu_engine "$build"/examples_engine_{engine.cpp,model.cpp,cpu.cpp,cuda.cu}.o
program gpu_engine_c "$build"/examples_engine_{engine.c,model.cpp,cpu.cpp,cuda.cu}.o "$build"/c_*.o
for link in "${links[@]}"; do wait "$link" || exit 1; done

# What a program takes is mostly the CPU's time, which computes what is expected: so many are run at once as there are processors, each by one thread.
export OMP_NUM_THREADS=1
begun=()
begin() { # NAME COMMAND...
  while [ "$(jobs -rp | wc -l)" -ge "$jobs" ]; do wait -n; done
  rm -f "$build/$1.rc"
  { "${@:2}" > "$out/$1.txt" 2>&1; echo $? > "$build/$1.rc"; } &
  begun+=("$1")
}
in_shares() { # PROGRAM CALLS: a quarter of the processors each have their seeds
  local shares=$(((jobs + 3) / 4)) each n
  each=$((($2 + shares - 1) / shares))
  for ((n = 0; n < shares; n++)); do begin "$1.$n" "$build/$1" "$each" $((n * each + 1)); done
}
finish() { # waits for what was begun, and says how each ended
  local name status
  wait
  for name in "${begun[@]}"; do
    status=$(cat "$build/$name.rc")
    if [ "$status" = 0 ]; then say "pass: $name: $(tail -1 "$out/$name.txt")"; else
      failed=1
      say "FAIL: $name$([ "$status" != 124 ] || echo ": it did not end within its time")"
      grep -E 'FAIL|ERROR' "$out/$name.txt" | head -20
    fi
  done
  begun=()
}
# The engine example: models and tokens of transformers where it is, else what `engine_peer.py .carry/engine` recorded elsewhere.
models=$build/engine peer=tests/python/hf
engine_models() {
  rm -rf "$models"
  if "$python" -c 'import torch, transformers' 2> /dev/null; then "$python" "$peer/engine_peer.py" "$models"; else cp -r .carry/engine "$models"; fi
}
engine_check() { engine_models && "$python" "$peer/engine_check.py" "$models" cuda "$build/gpu_engine" "$build/gpu_engine_c"; }

all_tests() {
  local calls=${CALLS:-20000}
  in_shares gpu_rotary "$calls"
  in_shares gpu_operations "$calls"
  in_shares gpu_prepare "$calls"
  in_shares gpu_mma $((calls / 40))
  in_shares gpu_hopper $((calls / 20))
  begin gpu_rotated "$build/gpu_rotated"
  begin gpu_hopper_backward "$build/gpu_hopper_backward" $((calls / 50))
  in_shares gpu_decode $((calls / 50))
  begin gpu_rows "$build/gpu_rows"
  begin cuda_proof "$build/cuda_proof"
  begin gpu_engine engine_check
  finish
  # Alone: the one needs much of the memory, the other runs several processes by itself.
  begin gpu_large "$build/gpu_large"
  finish
  begin gpu_attention env JOBS="$jobs" tools/gpu_attention.sh "$build/gpu_attention"
  finish
}

. tools/gpu_sanitizers.sh
if [ -z "$only" ]; then all_tests; fi
if [ -n "${QUICK:-}" ]; then say "NOT RUN: compute-sanitizer, since QUICK is set"; else all_sanitizers; fi
if [ -z "$only" ]; then
  begin rotary_bench "$build/rotary_bench" "$out/rotary_bench.json"  # alone: it takes times
  finish
  cat "$out/rotary_bench.txt"
  awk '/ calls/ { n = $1; $1 = ""; sum[$0] += n } END { for (name in sum) printf "%7d%s\n", sum[name], name }' "$out"/gpu_{rotary,operations,prepare}.*.txt | sort -k2
fi
exit $failed
