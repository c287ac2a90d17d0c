#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Compiles all CUDA code of the project and runs the proof (tests/cuda): tools/cuda_proof.sh [LIBRARY [FOLDER [ARGUMENTS...]]]. Without
# arguments: the library of the dev preset, and the half of the proof that needs no GPU. Where there is no nvcc it says so.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
library=${1:-build/dev/libphasor.a} folder=${2:-build/cuda}
if [[ $# -gt 2 ]]; then arguments=("${@:3}"); elif [[ $# -gt 0 ]]; then arguments=(); else arguments=(--host); fi
nvcc=$(PATH=$PATH:/usr/local/cuda/bin command -v nvcc) || { echo "cuda: NOT COMPILED: no nvcc on the PATH nor in /usr/local/cuda/bin"; exit 0; }
mkdir -p "$folder"
# --fmad=false and -ffp-contract=off: the rotation is never fused, on either side.
flags=(-std=c++20 -O3 "-arch=sm_${CUDA_ARCH:-90}" --expt-relaxed-constexpr --fmad=false -Xcompiler=-ffp-contract=off -Iinclude -Isrc -Itests)
mapfile -t sources < <(find src tests -name '*.cu' | sort)
objects=()
for source in "${sources[@]}"; do
  object=$folder/$(tr / _ <<<"$source").o
  "$nvcc" "${flags[@]}" -c "$source" -o "$object"
  objects+=("$object")
done
"$nvcc" "-arch=sm_${CUDA_ARCH:-90}" "${objects[@]}" "$library" -lgomp -o "$folder/cuda_proof"
echo "cuda: ${#sources[@]} files compiled by $("$nvcc" --version | sed -n 's/.*release \([0-9.]*\),.*/nvcc \1/p')"
"$folder/cuda_proof" "${arguments[@]}"
