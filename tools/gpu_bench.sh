#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Times the kernels on a GPU beside a kernel that copies as much, then what peers there are (bench/gpu/peers.py) beside Phasor. JSON under $OUT
# (default ./out), one table of all of it last. Needs what tools/gpu_test.sh needs.
#   gpu_bench.sh [--only NAME] [--flashinfer LIBRARY] [--sglang LIBRARY] [--vllm LIBRARY]
# NAME chooses cases of Phasor's benchmarks by a part of their names. A LIBRARY of a peer, built elsewhere, exports what peers.py says.
set -uo pipefail
usage() { echo "gpu_bench: $1" >&2; sed -n 's/^#   /usage: /p' "$0" >&2; exit 2; }
only='' peers=()
while [ $# -gt 0 ]; do
  case $1 in
    --only | --flashinfer | --sglang | --vllm) [ $# -gt 1 ] || usage "$1 wants a value" ;;
    *) usage "there is no option $1" ;;
  esac
  if [ "$1" = --only ]; then only=$2; else
    [ -e "$2" ] || usage "$1: there is no file $2"
    peers+=("$1" "$(realpath "$2")")
  fi
  shift 2
done

cd "$(dirname "$0")/.."
out=${OUT:-out} build=build/gpu jobs=$(nproc)
mkdir -p "$out" "$build"
nvidia-smi -L || { echo "gpu_bench: there is no GPU" >&2; exit 2; }
say() { printf '%s\n' "$*"; }

. tools/gpu_build.sh
gpu_build bench
failed=0 files=()
for name in rotary_bench prepare_bench operations_bench; do
  begin=$SECONDS
  "$nvcc" "-arch=sm_${CUDA_ARCH:-90}" "$build/bench_gpu_$name.cu.o" "${backend[@]}" "$build/libphasor.a" -lgomp -o "$build/$name" || exit 1
  if "$build/$name" "$out/$name.json" "$only"; then files+=("$out/$name.json"); else say "FAIL: $name"; failed=1; fi
  say "$name: $((SECONDS - begin)) s"
done
# Phasor as peers.py calls it and its peers: a library of its own, of which only its functions are seen.
"$nvcc" -shared -cudart static "$build/bench_gpu_ours.cu.o" "${backend[@]}" "$build/libphasor.a" -lgomp -Xlinker --exclude-libs,ALL -o "$build/ours.so" || exit 1
begin=$SECONDS
rm -f "$out/gpu_peers.json"
PYTHONPATH=$PWD/python:$PWD/python/cuda13 "${PYTHON:-python3}" bench/gpu/peers.py --phasor "$build/ours.so" "${peers[@]}" "$out/gpu_peers.json" ||
  { say "FAIL: peers.py"; failed=1; }
# Decoding over pages, beside a copy of the bytes that it reads.
compile tests/cuda/attention/decode_bench.cu || exit 1
"$nvcc" "-arch=sm_${CUDA_ARCH:-90}" "$build/tests_cuda_attention_decode_bench.cu.o" "${backend[@]}" "$build/libphasor.a" -lgomp -o "$build/decode_bench" || exit 1
if "$build/decode_bench" "$out/decode_bench.json" "$only"; then files+=("$out/decode_bench.json"); else say "FAIL: decode_bench"; failed=1; fi
# Attention of Hopper beside cuDNN and PyTorch's flash.
begin=$SECONDS
compile tests/cuda/attention/hopper_ours.cu || exit 1
compile tests/cuda/attention/mma_ours.cu || exit 1
"$nvcc" -shared -cudart static "$build/tests_cuda_attention_hopper_ours.cu.o" "$build/tests_cuda_attention_mma_ours.cu.o" "${backend[@]}" "$build/libphasor.a" -lgomp -Xlinker --exclude-libs,ALL -o "$build/hopper_ours.so" || exit 1
"${PYTHON:-python3}" bench/gpu/attention_bench.py "$build/hopper_ours.so" "$out/attention_bench.json" || { say "FAIL: attention_bench.py"; failed=1; }
say "attention_bench.py: $((SECONDS - begin)) s"
# Encoders of transformers with our attention beside theirs, and memory of long sequences, where tools/gpu_python.sh has made the module.
if ls python/cuda13/phasor_cuda13/_core*.so > /dev/null 2>&1; then
  PYTHONPATH=$PWD/python:$PWD/python/cuda13 "${PYTHON:-python3}" bench/gpu/training.py "$out/training.json" || { say "FAIL: training.py"; failed=1; }
  PYTHONPATH=$PWD/python:$PWD/python/cuda13 "${PYTHON:-python3}" bench/gpu/attention_memory.py "$out/attention_memory.json" || { say "FAIL: attention_memory.py"; failed=1; }
else
  say "NOT RUN: training.py, attention_memory.py, since tools/gpu_python.sh has not made the module"
fi
if [ -e "$out/gpu_peers.json" ]; then files+=("$out/gpu_peers.json"); fi  # of those that were right
say "peers.py: $((SECONDS - begin)) s"
python3 bench/gpu/table.py "${files[@]}" | tee "$out/gpu_table.md"
exit $failed
