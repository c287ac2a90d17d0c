#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The Python tests on the installed wheel, in virtual environments of their own under build/: all of them with PyTorch, and with
# NumPy alone those that must pass so. Arguments go to pytest.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
tools/python_venv.sh venv tests/python/requirements.txt
tools/python_venv.sh venv-numpy tests/python/requirements-numpy.txt
tools/python_wheel.sh test venv venv-numpy
# -P: what is tested is the wheel, nothing that lies about here.
build/venv-numpy/bin/python -P -m pytest -q -p no:cacheprovider tests/python/numpy_alone.py
# A process a core, one thread each: tests that are about threads say how many.
OMP_NUM_THREADS=1 build/venv/bin/python -P -m pytest -q -p no:cacheprovider -n "$(nproc)" --dist worksteal --durations=8 "${@:-tests/python}"
