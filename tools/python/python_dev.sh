#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the extension module in place, for work on the package without installing it: tools/python/python_dev.sh [python], then
# PYTHONPATH=python python -m pytest tests/python. Writes its stub again too. That Python needs nanobind.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
python=$(command -v "${1:-python3}")
cmake -S . -B build/python -G Ninja --log-level=WARNING -DSKBUILD=ON -DPython_EXECUTABLE="$python" \
  -DCMAKE_BUILD_TYPE=RelWithDebInfo -DCMAKE_CXX_FLAGS_RELWITHDEBINFO=-O2 -DPHASOR_BUILD_CLI=OFF -DPHASOR_OPENMP=OFF -DPHASOR_WERROR=ON
cmake --build build/python -j "${JOBS:-$(nproc)}" --target _core
rm -f python/phasor/_core*.so  # one of another Python would stay beside it
cp build/python/python/_core*.so python/phasor/
PYTHONPATH=python "$python" tools/python/python_stub.py python/phasor/_core.pyi
