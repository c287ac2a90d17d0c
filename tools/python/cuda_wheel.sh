#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the wheel of phasor-cuda13 (python/cuda13), the core with CUDA kernels, into build/wheels-cuda:
# tools/python/cuda_wheel.sh test|release [python]. That Python needs scikit-build-core and nanobind; nvcc must be here.
# `release` compiles as users get it, for every family of GPUs (cmake/cuda_architectures.cmake), which takes the assembler long. `test` compiles the
# library as the dev preset does, so that ccache has it, and CUDA's part as PTX alone. Each has a folder of its own: a folder keeps its GPUs.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
kind=$1 python=${2:-build/venv/bin/python} wheels=$PWD/build/wheels-cuda
nvcc=$(PATH=$PATH:/usr/local/cuda/bin command -v nvcc) || { echo "cuda_wheel: there is no nvcc" >&2; exit 2; }
settings=(-C "cmake.define.CMAKE_CUDA_COMPILER=$nvcc" -C "build-dir=$PWD/build/wheel-cuda-$kind")
if [[ $kind == test ]]; then
  export CXX=${CXX:-c++}
  settings+=(-C cmake.define.CMAKE_CUDA_ARCHITECTURES=90-virtual)
  settings+=(-C cmake.build-type=RelWithDebInfo -C cmake.define.CMAKE_CXX_FLAGS_RELWITHDEBINFO=-O2 -C cmake.define.PHASOR_WERROR=ON)
fi
if [[ -n ${CMAKE_CXX_COMPILER_LAUNCHER:-} ]]; then settings+=(-C "cmake.define.CMAKE_CUDA_COMPILER_LAUNCHER=$CMAKE_CXX_COMPILER_LAUNCHER"); fi
rm -rf "$wheels"
mkdir -p "$wheels"
"$python" -m pip wheel -q --disable-pip-version-check --no-deps --no-build-isolation "${settings[@]}" -w "$wheels" python/cuda13
ls -l "$wheels"/*.whl
