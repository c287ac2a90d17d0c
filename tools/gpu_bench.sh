#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Times the kernels on a GPU beside a kernel that copies as much, then what peers are installed (bench/gpu/peers.py) beside Phasor's Python calls,
# whose module tools/gpu_python.sh builds. Tables here, JSON under $OUT (default ./out). Needs what tools/gpu_test.sh needs.
set -uo pipefail
cd "$(dirname "$0")/.."
out=${OUT:-out} build=build/gpu jobs=$(nproc)
mkdir -p "$out" "$build"
nvidia-smi -L || { echo "gpu_bench: there is no GPU" >&2; exit 2; }
say() { printf '%s\n' "$*"; }

. tools/gpu_build.sh
gpu_build
"$nvcc" "-arch=sm_${CUDA_ARCH:-90}" "$build/bench_gpu_rotary_bench.cu.o" "${backend[@]}" "$build/libphasor.a" -lgomp -o "$build/rotary_bench" || exit 1
"$build/rotary_bench" "$out/rotary_bench.json" "$@" || exit 1
[ -e python/cuda13/phasor_cuda13/_core.abi3.so ] || say "Phasor's Python calls are not timed: tools/gpu_python.sh builds their module"
PYTHONPATH=$PWD/python:$PWD/python/cuda13 "${PYTHON:-python3}" bench/gpu/peers.py "$out/gpu_peers.json"
