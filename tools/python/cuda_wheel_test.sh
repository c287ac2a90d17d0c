#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The second distribution on a machine without a GPU: its wheel is built (as PTX alone), is found beside phasor, does on the CPU what phasor does,
# and says which driver a call with memory on a GPU misses: tools/python/cuda_wheel_test.sh [python that has phasor].
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
python=${1:-build/venv/bin/python} site=$PWD/build/cuda-site
PATH=$PATH:/usr/local/cuda/bin command -v nvcc >/dev/null || { echo "cuda wheel: NOT BUILT: no nvcc on the PATH nor in /usr/local/cuda/bin"; exit 0; }
tools/python/cuda_wheel.sh test "$python"
rm -rf "$site"
"$python" -m pip install -q --disable-pip-version-check --no-deps --target "$site" build/wheels-cuda/*.whl
PYTHONPATH=$site${PYTHONPATH:+:$PYTHONPATH} "$python" -P -m pytest -q -p no:cacheprovider tests/python/environments/cuda_without_gpu.py
