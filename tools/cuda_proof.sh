#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Compiles and links all CUDA code of the project, and runs the half of the proof (tests/cuda/proof.cu) that needs no GPU, with the library of the
# dev preset. What needs one is run by tools/gpu_test.sh. Where there is no nvcc it says so.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
library=build/dev/libphasor.a folder=build/cuda
nvcc=$(PATH=$PATH:/usr/local/cuda/bin command -v nvcc) || { echo "cuda: NOT COMPILED: no nvcc on the PATH nor in /usr/local/cuda/bin"; exit 0; }
launcher=()  # a compiler cache knows nvcc, too, but would hand it an option that it does not know where comments count
unset CCACHE_COMMENTS
[[ -z ${CMAKE_CXX_COMPILER_LAUNCHER:-} ]] || launcher=("$CMAKE_CXX_COMPILER_LAUNCHER")
mkdir -p "$folder"
rm -f "$folder"/*.o  # those of sources that are gone
# Code of the virtual machine only: nothing of it runs here, and the assembler would take five minutes. tools/gpu_test.sh makes real code.
arch=-gencode=arch=compute_${CUDA_ARCH:-90},code=compute_${CUDA_ARCH:-90}
# --fmad=false and -ffp-contract=off: the rotation is never fused, on either side.
# The least optimisation of device code that keeps it inlined: it takes half of the time.
flags=(-std=c++20 -O3 -Xcicc -O1 "$arch" --expt-relaxed-constexpr --fmad=false -Xcompiler=-ffp-contract=off -Iinclude -Isrc -Itests)
mapfile -t sources < <(find src tests bench examples -name '*.cu' ! -path 'src/cuda/attention/hopper/*' | sort)
# Kernels of Hopper are assembled, too: only the assembler says where it spoils them.
mapfile -t hopper < <(find src/cuda/attention/hopper -name '*.cu' | sort)
hopper_flags=(-std=c++20 -O3 -gencode=arch=compute_90a,code=sm_90a --fmad=true --expt-relaxed-constexpr -Iinclude -Isrc)
object_of() { echo "$folder/$(tr / _ <<<"$1").o"; }
engine=(examples/engine/{engine,model,cpu}.cpp)
for source in "${sources[@]}" "${engine[@]}" tests/cuda/random_calls.cpp tests/cuda/random_operations.cpp; do printf '%s\0%s\0' "$source" "$(object_of "$source")"; done |
  xargs -0 -P "$(nproc)" -n 2 bash -c '"${@:1:$#-2}" -c "${@: -2:1}" -o "${@: -1}" || exit 255' - "${launcher[@]}" "$nvcc" "${flags[@]}"
for source in "${hopper[@]}"; do printf '%s\0%s\0' "$source" "$(object_of "$source")"; done |
  xargs -0 -P "$(nproc)" -n 2 bash -c '"${@:1:$#-2}" -c "${@: -2:1}" -o "${@: -1}" || exit 255' - cmake/hopper_nvcc.sh "${launcher[@]}" "$nvcc" "${hopper_flags[@]}"

# program NAME OBJECTS...: those of the backend come before the library, whose part for builds without CUDA then is not taken.
program() { "$nvcc" "$arch" "${@:2}" "$folder"/src_*.o "$library" -lgomp -o "$folder/$1"; }
program cuda_proof "$(object_of tests/cuda/proof.cu)"
program gpu_rotary "$(object_of tests/cuda/gpu_rotary.cu)" "$(object_of tests/cuda/random_calls.cpp)"
program gpu_operations "$(object_of tests/cuda/gpu_operations.cu)" "$(object_of tests/cuda/random_calls.cpp)" "$(object_of tests/cuda/random_operations.cpp)"
program gpu_prepare "$(object_of tests/cuda/gpu_prepare.cu)"
program gpu_hopper "$(object_of tests/cuda/attention/gpu_hopper.cu)"
program gpu_mma "$(object_of tests/cuda/attention/gpu_mma.cu)"
program gpu_rotated "$(object_of tests/cuda/attention/gpu_rotated.cu)"
program gpu_decode "$(object_of tests/cuda/attention/gpu_decode.cu)"
program gpu_hopper_backward "$(object_of tests/cuda/attention/gpu_hopper_backward.cu)"
program gpu_large "$(object_of tests/cuda/gpu_large.cu)"
program gpu_rows "$(object_of tests/cuda/gpu_rows.cu)" "$(object_of tests/cuda/random_calls.cpp)"
program gpu_engine "$folder"/examples_engine_*.o
for name in rotary_bench prepare_bench operations_bench; do program "$name" "$(object_of "bench/gpu/$name.cu")"; done
echo "cuda: $((${#sources[@]} + ${#hopper[@]})) files compiled by $("$nvcc" --version | sed -n 's/.*release \([0-9.]*\),.*/nvcc \1/p')"
"$folder/cuda_proof" --host
