#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The Python tests on the installed wheel, in virtual environments of their own under build/: all of them with PyTorch, with NumPy alone
# those that must pass so (the newest NumPy and the oldest), and those of the package kernels with it beside the others. Arguments go to pytest.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

environments() {
  tools/python/python_venv.sh venv tests/python/requirements.txt
  tools/python/python_venv.sh venv-numpy tests/python/requirements-numpy.txt
  tools/python/python_venv.sh venv-oldest tests/python/requirements-oldest.txt
  tools/python/python_venv.sh venv-kernels tests/python/requirements-kernels.txt
}

# -P: what is tested is the wheel, nothing that lies about here. A process for each core, one thread each: tests that are about threads say how many.
tests() {
  for venv in venv-numpy venv-oldest; do
    "build/$venv/bin/python" -P -m pytest -q -p no:cacheprovider tests/python/environments/numpy_alone.py
  done
  PYTHONPATH=$(echo "$PWD"/build/venv-kernels/lib/python*/site-packages) OMP_NUM_THREADS=1 \
    build/venv/bin/python -P -m pytest -q -p no:cacheprovider tests/python/environments/kernels_hook.py
  OMP_NUM_THREADS=1 build/venv/bin/python -P -m pytest -q -p no:cacheprovider -n "$(nproc)" --dist worksteal --durations=8 "${@:-tests/python}"
}

case ${1:-} in
  --environments) environments ;;
  --tests) shift && tests "$@" ;;
  *)
    tools/timed.sh "Python environments" tools/python/python_test.sh --environments
    tools/timed.sh "Python wheel" tools/python/python_wheel.sh test venv venv-numpy venv-oldest
    tools/timed.sh "Python tests" tools/python/python_test.sh --tests "$@"
    ;;
esac
