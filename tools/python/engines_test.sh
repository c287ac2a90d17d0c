#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# phasor-vllm in a real vLLM, on the CPU, in a virtual environment of its own (3.5 GB): every rotary layer beside vLLM's own, and tiny models that
# generate with and without the plugin. Not in make test: the environment alone takes minutes. Arguments go to pytest.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
. tools/python/engine_steps.sh

environment() {
  tools/python/python_venv.sh venv tests/python/requirements.txt
  tools/python/python_venv.sh venv-vllm tests/python/requirements-vllm.txt
  build/venv-vllm/bin/pip uninstall -q -y torchvision torchaudio torchcodec
  tools/python/python_wheel.sh test venv venv-vllm
  build/venv-vllm/bin/pip install -q --disable-pip-version-check --no-deps --no-build-isolation --force-reinstall ./adapters/vllm
  # Apart from the others: images_by_vllm.py alone takes it from there.
  [[ -d build/venv-vllm/vision/torchvision ]] ||
    build/venv-vllm/bin/pip install -q --disable-pip-version-check --no-deps --target build/venv-vllm/vision torchvision==0.28.0
}

tests() {
  local here=tests/python/engines/vllm
  # Without the conftest of the other tests: it wants their packages.
  OMP_NUM_THREADS=1 VLLM_NO_USAGE_STATS=1 HF_HUB_OFFLINE=1 \
    build/venv-vllm/bin/python -P -m pytest -q -p no:cacheprovider --noconftest --durations=12 \
    $here/layers_of_vllm.py $here/generate_by_vllm.py $here/images_by_vllm.py $here/compile_by_vllm.py "$@"
}

engine_steps engines "$@"
