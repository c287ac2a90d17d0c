#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# phasor-sglang in a real SGLang, on the CPU, in a virtual environment of its own (1.9 GB): its rotary layers, and tiny models that generate with and
# without the plugin. Part of make test-engines. Arguments go to pytest.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
. tools/python/engine_steps.sh
pip="build/venv-sglang/bin/pip --disable-pip-version-check -q"

environment() {
  tools/python/python_venv.sh venv tests/python/requirements.txt
  tools/python/python_venv.sh venv-sglang tests/python/requirements-sglang.txt
  # Without what they require: CUDA in many packages. tests/python/engines/sglang/absent.py has what is then missing.
  $pip install --no-deps sglang==0.5.23 triton==3.9.0 torchvision==0.28.0
  tools/python/python_wheel.sh test venv venv-sglang
  $pip install --no-deps --no-build-isolation --force-reinstall ./adapters/sglang
}

tests() {
  # Without the conftest of the other tests: it wants their packages.
  SGLANG_USE_CPU_ENGINE=1 HF_HUB_OFFLINE=1 OMP_NUM_THREADS=1 \
    build/venv-sglang/bin/python -P -m pytest -q -p no:cacheprovider --noconftest --import-mode=prepend \
    tests/python/engines/sglang/layers_of_sglang.py tests/python/engines/sglang/generate_by_sglang.py "$@"
}

engine_steps sglang "$@"
