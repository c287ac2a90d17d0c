#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the library with its CUDA backend from the checkout and .carry/ (tools/make_carry.sh) by g++ and nvcc, runs every GPU test and times
# the kernels: for machines with a GPU and without packages. Results under $OUT (default ./out), objects in build/gpu. A table comes last.
set -uo pipefail
cd "$(dirname "$0")/.."
out=${OUT:-out} build=build/gpu jobs=$(nproc) python=${PYTHON:-python3}
mkdir -p "$out" "$build"
nvidia-smi -L || { echo "gpu_test: there is no GPU" >&2; exit 2; }
failed=0
say() { printf '%s\n' "$*" | tee -a "$out/summary.txt"; }

. tools/gpu_build.sh
gpu_build

program() { # NAME OBJECTS...
  "$nvcc" "-arch=sm_${CUDA_ARCH:-90}" "${@:2}" "${backend[@]}" "$build/libphasor.a" -lgomp -o "$build/$1" || { say "FAIL: $1 does not link"; exit 1; }
}
program gpu_rotary "$build/tests_cuda_gpu_rotary.cu.o" "$build/tests_cuda_random_calls.cpp.o"
program gpu_operations "$build/tests_cuda_gpu_operations.cu.o" "$build/tests_cuda_random_calls.cpp.o" "$build/tests_cuda_random_operations.cpp.o"
program gpu_prepare "$build/tests_cuda_gpu_prepare.cu.o"
program gpu_hopper "$build/tests_cuda_attention_gpu_hopper.cu.o"
program gpu_mma "$build/tests_cuda_attention_gpu_mma.cu.o"
program gpu_hopper_backward "$build/tests_cuda_attention_gpu_hopper_backward.cu.o"
program gpu_decode "$build/tests_cuda_attention_gpu_decode.cu.o"
program gpu_large "$build/tests_cuda_gpu_large.cu.o"
program gpu_rows "$build/tests_cuda_gpu_rows.cu.o" "$build/tests_cuda_random_calls.cpp.o"
program gpu_attention "$build/tests_cuda_attention_gpu_attention.cpp.o" "$build"/tests_attention_*.o "$build/.carry_googletest_src_gtest-all.cc.o"
program cuda_proof "$build/tests_cuda_proof.cu.o"
program rotary_bench "$build/bench_gpu_rotary_bench.cu.o"
program gpu_engine "$build"/examples_engine_{engine.cpp,model.cpp,cpu.cpp,cuda.cu}.o
program gpu_engine_c "$build"/examples_engine_{engine.c,model.cpp,cpu.cpp,cuda.cu}.o "$build"/c_*.o

run() { # NAME COMMAND...
  if "${@:2}" > "$out/$1.txt" 2>&1; then say "pass: $1: $(tail -1 "$out/$1.txt")"; else
    failed=1
    say "FAIL: $1"
    grep -E 'FAIL|ERROR' "$out/$1.txt" | head -20
  fi
}
run gpu_rotary "$build/gpu_rotary" "${CALLS:-20000}"
run gpu_operations "$build/gpu_operations" "${CALLS:-20000}"
run gpu_prepare "$build/gpu_prepare" "${CALLS:-20000}"
run gpu_hopper "$build/gpu_hopper" $((${CALLS:-20000} / 20))
run gpu_mma "$build/gpu_mma" $((${CALLS:-20000} / 40))
run gpu_hopper_backward "$build/gpu_hopper_backward" $((${CALLS:-20000} / 50))
run gpu_decode "$build/gpu_decode" $((${CALLS:-20000} / 50))
run gpu_large "$build/gpu_large"
run gpu_rows "$build/gpu_rows"
run gpu_attention tools/gpu_attention.sh "$build/gpu_attention"
run cuda_proof "$build/cuda_proof"
# The engine example: models and tokens of transformers where it is, else what `engine_peer.py .carry/engine` recorded elsewhere.
engine_check() {
  local models=$build/engine peer=tests/python/hf
  rm -rf "$models"
  if "$python" -c 'import torch, transformers' 2> /dev/null; then "$python" "$peer/engine_peer.py" "$models"; else cp -r .carry/engine "$models"; fi &&
    "$python" "$peer/engine_check.py" "$models" cuda "$build/gpu_engine" "$build/gpu_engine_c"
}
run gpu_engine engine_check
sanitizer=$(PATH=$PATH:/usr/local/cuda/bin command -v compute-sanitizer || true)
if [ -n "${QUICK:-}" ]; then
  say "NOT RUN: compute-sanitizer, since QUICK is set"
elif [ -n "$sanitizer" ]; then
  # Errors of CUDA's functions are not counted: calls that are refused are part of the test.
  for program in gpu_rotary gpu_operations gpu_prepare; do
    for tool in memcheck racecheck initcheck synccheck; do
      run "${tool}_$program" "$sanitizer" --tool "$tool" --report-api-errors no --error-exitcode 9 "$build/$program" 300
    done
  done
  # The other tools do not follow copies and products that go on by themselves.
  run memcheck_gpu_engine "$sanitizer" --tool memcheck --report-api-errors no --error-exitcode 9 "$build/gpu_engine" --device cuda "$build/engine/plain" 12 16 4 3 17 60 5 5 41 22
  run memcheck_gpu_decode "$sanitizer" --tool memcheck --report-api-errors no --error-exitcode 9 "$build/gpu_decode" 20
  run memcheck_gpu_hopper "$sanitizer" --tool memcheck --report-api-errors no --error-exitcode 9 "$build/gpu_hopper" 30
  for tool in memcheck racecheck synccheck; do
    run "${tool}_gpu_mma" "$sanitizer" --tool "$tool" --report-api-errors no --error-exitcode 9 "$build/gpu_mma" 5
  done
  run memcheck_gpu_hopper_backward "$sanitizer" --tool memcheck --report-api-errors no --error-exitcode 9 "$build/gpu_hopper_backward" 15
else
  say "NOT RUN: compute-sanitizer is not here"
fi
run rotary_bench "$build/rotary_bench" "$out/rotary_bench.json"
cat "$out/rotary_bench.txt"
cat "$out/gpu_rotary.txt" "$out/gpu_operations.txt"
exit $failed
