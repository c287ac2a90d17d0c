#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Times the kernels on a GPU: rotations and what lies beside them next to a kernel that copies as much and next to peers (bench/gpu/peers.py), attention
# next to cuDNN, PyTorch's flash, FlexAttention and dense biases (bench/gpu/attention_targets.py), encoders in training next to transformers' own
# (bench/gpu/training.py). Tables here, JSON under $OUT (default ./out). Needs what tools/gpu_test.sh needs, and the module of tools/gpu_python.sh, which
# is built where it is not there; MODULE: a ready one.
#   gpu_bench.sh [--part rotation | attention | training]... [--only NAME] [--seconds N] [--kernels] [--flashinfer LIBRARY] [--sglang LIBRARY] [--vllm LIBRARY]
# Parts: all of them unless some are named. NAME chooses cases, and groups of the table of attention, by a part of their names. --seconds: no group of
# that table, and no encoder, is begun after so many. --kernels: attention's kernels alone, too, without what Python and a call's small kernels take
# (bench/gpu/attention_bench.py). A LIBRARY of a peer, built elsewhere, exports what peers.py says.
set -uo pipefail
usage() { echo "gpu_bench: $1" >&2; sed -n 's/^#   /usage: /p' "$0" >&2; exit 2; }
only='' peers=() parts='' limits=() kernels=''
while [ $# -gt 0 ]; do
  case $1 in
    --part | --only | --seconds | --flashinfer | --sglang | --vllm) [ $# -gt 1 ] || usage "$1 wants a value" ;;
    --kernels) kernels=1; shift; continue ;;
    *) usage "there is no option $1" ;;
  esac
  case $1 in
    --part) [[ $2 =~ ^(rotation|attention|training)$ ]] || usage "--part: there is no part $2"; parts+=" $2" ;;
    --only) only=$2 ;;
    --seconds) limits=(--seconds "$2") ;;
    *)
      [ -e "$2" ] || usage "$1: there is no file $2"
      peers+=("$1" "$(realpath "$2")")
      ;;
  esac
  shift 2
done
parts="${parts:- rotation attention training} "

cd "$(dirname "$0")/.."
out=${OUT:-out} build=build/gpu jobs=$(nproc) python=${PYTHON:-python3}
mkdir -p "$out" "$build"
nvidia-smi -L || { echo "gpu_bench: there is no GPU" >&2; exit 2; }
say() { printf '%s\n' "$*"; }
failed=0 files=()
wanted() { [[ $parts == *" $1 "* ]]; }
timed() { # NAME COMMAND...: says how long it took, and whether it failed
  local begin=$SECONDS name=$1 status=0
  "${@:2}" || { say "FAIL: $name"; failed=1 status=1; }
  say "$name: $((SECONDS - begin)) s"
  return $status
}
program() { # OBJECT NAME: a program of one object and the library
  "$nvcc" "-arch=sm_${CUDA_ARCH:-90}" "$build/$1.cu.o" "${backend[@]}" "$build/libphasor.a" -lgomp -o "$build/$2"
}
library() { # NAME OBJECTS...: a shared library, of which only these objects' functions are seen
  "$nvcc" -shared -cudart static "${@:2}" "${backend[@]}" "$build/libphasor.a" -lgomp -Xlinker --exclude-libs,ALL -o "$build/$1"
}
export PYTHONPATH=$PWD/python:$PWD/python/cuda13

if wanted rotation || wanted attention; then
  . tools/gpu_build.sh
  gpu_build bench
fi
if wanted rotation; then
  for name in rotary_bench prepare_bench operations_bench; do
    program "bench_gpu_$name" "$name" || exit 1
    timed "$name" "$build/$name" "$out/$name.json" "$only" && files+=("$out/$name.json")
  done
  # Phasor as peers.py calls it and its peers.
  library ours.so "$build/bench_gpu_ours.cu.o" || exit 1
  rm -f "$out/gpu_peers.json"
  timed peers.py "$python" bench/gpu/peers.py --phasor "$build/ours.so" "${peers[@]}" "$out/gpu_peers.json"
  if [ -e "$out/gpu_peers.json" ]; then files+=("$out/gpu_peers.json"); fi  # of those that were right
fi

module() { # what phasor's Python package needs: made as gpu_python.sh does, which runs tests of a name that none has
  local folder=python/cuda13/phasor_cuda13
  if [ -n "${MODULE:-}" ]; then cp "$MODULE" "$folder/_core.abi3.so"; fi
  if ! ls "$folder"/_core*.so > /dev/null 2>&1; then tools/gpu_python.sh nothing_by_this_name > "$out/module.txt" 2>&1; fi
  ls "$folder"/_core*.so > /dev/null 2>&1 || { say "FAIL: the module does not build, see $out/module.txt"; failed=1; return 1; }
}
tables=()
if wanted attention; then
  # Decoding over pages, the kernel alone, beside a kernel that reads as much: its figures join the table.
  compile tests/cuda/attention/decode_bench.cu && program tests_cuda_attention_decode_bench decode_bench || exit 1
  timed decode_bench "$build/decode_bench" "$out/decode_bench.json" "$only" && files+=("$out/decode_bench.json")
  if module; then
    timed attention_targets.py "$python" bench/gpu/attention_targets.py "$out/attention.json" --decode-json "$out/decode_bench.json" ${only:+--only "$only"} "${limits[@]}"
    tables+=("$out/attention.json")
  fi
  if [ -n "$kernels" ]; then
    for name in hopper_ours mma_ours; do compile "tests/cuda/attention/$name.cu" || exit 1; done
    library hopper_ours.so "$build"/tests_cuda_attention_{hopper,mma}_ours.cu.o || exit 1
    timed attention_bench.py "$python" bench/gpu/attention_bench.py "$build/hopper_ours.so" "$out/attention_kernels.json"
  fi
fi
if wanted training && module; then
  timed training.py "$python" bench/gpu/training.py "$out/training.json" "${limits[@]}"
  tables+=("$out/training.json")
fi
python3 bench/gpu/table.py "${files[@]}" "${tables[@]}" | tee "$out/gpu_table.md"
exit $failed
