#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# On a machine with an NVIDIA GPU and nvcc, no packages and no network: library, tests and timings on its CPU (x86_bench.sh), then the CUDA
# proof (tests/cuda). Needs .carry/ (tools/make_carry.sh). Results under $OUT (default ./out). `--host`: the proof without a GPU.
set -uo pipefail
cd "$(dirname "$0")/.."
export OUT=${OUT:-$PWD/out}
arch=${CUDA_ARCH:-90}
failed=0

tools/x86_bench.sh --no-bench || failed=1
[ -e build/carried/libphasor.a ] || exit 1
CUDA_ARCH=$arch tools/cuda_proof.sh build/carried/libphasor.a build/carried "$@" | tee "$OUT/cuda_proof.txt"
[ "${PIPESTATUS[0]}" = 0 ] && grep -q '^PASS' "$OUT/cuda_proof.txt" || failed=1
[ "${1:-}" = --host ] || BENCH_ONLY=1 tools/x86_bench.sh || failed=1

echo "---- summary"
cat "$OUT/summary.txt"
grep -E '^(pass|FAIL|PASS|time)' "$OUT/cuda_proof.txt"
[ "$failed" = 0 ] && echo "gpu_proof: all passed" || echo "gpu_proof: FAILED"
exit "$failed"
