# SPDX-License-Identifier: Apache-2.0
# compute-sanitizer over every program of kernels, for tools/gpu_test.sh, which sources it and has begin, finish, say, build and out.
# What it may say about copies that go on by themselves, and why that is no error, is in docs/design/cuda-hopper.md, "Sanitizers".

# check TOOL PROGRAM ARGUMENTS...: must find nothing. Errors of CUDA's functions are not counted: calls that are refused are part of the test.
check() {
  begin "$1_$2" timeout "${CHECK_SECONDS:-240}" "$sanitizer" --tool "$1" --report-api-errors no --error-exitcode 9 "$build/$2" "${@:3}"
}

# look TOOL PROGRAM ARGUMENTS...: what it reports is printed and counted, and is to be held against that page; it fails nothing.
look() {
  begin "$1_$2" looked "$1" "$2" "${@:3}"
}
looked() {
  local report=$out/$1_$2.report.txt status
  timeout "${CHECK_SECONDS:-240}" "$sanitizer" --tool "$1" --report-api-errors no --print-limit 2000 "$build/$2" "${@:3}" > "$report" 2>&1
  status=$?
  # Each kind of report by its kernel, without addresses and threads.
  grep -oE '(Error|Warning): .*|Barrier error.*' "$report" | sed -E 's/0x[0-9a-f]+//g; s/\(?[0-9]+,[0-9]+,[0-9]+\)?//g' | sort | uniq -c | sort -rn | head -30
  echo "$1 of $2: status $status, $(grep -cE '(Error|Warning): |Barrier error' "$report") reports, to be held against docs/design/cuda-hopper.md"
}

# checked_tests TOOL EVERY: each EVERY-th test of every suite of gpu_attention, in a process of its own: the general kernels, merges, weights.
checked_tests() {
  begin "$1_gpu_attention" env JOBS="$jobs" EVERY="$2" LIMIT="${CHECK_SECONDS:-240}" \
    RUN_BY="$sanitizer --tool $1 --report-api-errors no --error-exitcode 9" tools/gpu_attention.sh "$build/gpu_attention"
}

# Keys that are gathered have tests in Python alone. PyTorch gives every tensor memory of its own then, so that a read beyond one is seen.
checked_gathering() {
  if ! ls python/cuda13/phasor_cuda13/_core*.so > /dev/null 2>&1; then say "NOT RUN: memcheck of gathered keys, since tools/gpu_python.sh has not made the module"; return; fi
  begin memcheck_gathered env PYTORCH_NO_CUDA_MEMORY_CACHING=1 PYTHONPATH="$PWD/python:$PWD/python/cuda13" OUT="$out/gathered" timeout "${CHECK_SECONDS:-240}" \
    "$sanitizer" --tool memcheck --target-processes all --report-api-errors no --error-exitcode 9 "$python" tests/python/gpu/run.py few_and_many eight_bits ragged_queries
}

all_sanitizers() {
  sanitizer=$(PATH=$PATH:/usr/local/cuda/bin command -v compute-sanitizer || true)
  if [ -z "$sanitizer" ]; then say "NOT RUN: compute-sanitizer is not here"; return; fi
  local program tool list
  for program in gpu_rotary gpu_operations gpu_prepare; do
    for tool in memcheck racecheck initcheck synccheck; do
      list=300
      # 300 calls need not have one by every kernel: a list does.
      if [ "$tool $program" = "racecheck gpu_prepare" ]; then list=few; fi
      check "$tool" "$program" "$list"
    done
  done
  # Kernels for every GPU: nothing of them goes on by itself but copies that their own thread, warp or block waits for.
  for tool in memcheck racecheck synccheck; do
    check "$tool" gpu_mma 5
    check "$tool" gpu_decode 12
  done
  checked_tests memcheck 4
  checked_tests racecheck 12
  checked_gathering
  check memcheck gpu_rows
  check memcheck gpu_rotated few
  [ -e "$models" ] || engine_models > "$out/engine_models.txt" 2>&1
  if [ -e "$models" ]; then check memcheck gpu_engine --device cuda "$models/plain" 12 16 4 3 17 60 5 5 41 22; else say "NOT RUN: memcheck of gpu_engine, which has no models here"; fi
  # Hopper's own: memcheck must find nothing; the other tools do not follow copies and products that go on by themselves.
  check memcheck gpu_hopper 30
  check memcheck gpu_hopper_backward 15
  for tool in racecheck synccheck; do
    look "$tool" gpu_hopper 5
    look "$tool" gpu_hopper_backward 4
  done
  # Not here: gpu_large, whose tensors of 2^31 elements would take hours, by kernels that the others check; cuda_proof, whose kernels are sweeps of arithmetic.
  finish
}
