#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The Python tests on the installed wheel, in virtual environments of their own under build/: all of them with PyTorch, with NumPy alone
# those that must pass so (the newest NumPy and the oldest), those of the package kernels with it beside the others, files of ONNX with its runtime
# beside them, and some of transformers with the oldest one. Arguments go to pytest.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

environments() {  # to unpack packages takes a processor: the common environment beside all others
  tools/python/python_venv.sh venv tests/python/requirements.txt &
  local common=$!
  tools/python/python_venv.sh venv-numpy tests/python/requirements-numpy.txt
  tools/python/python_venv.sh venv-oldest tests/python/requirements-oldest.txt
  tools/python/python_venv.sh venv-kernels tests/python/requirements-kernels.txt
  tools/python/python_venv.sh venv-transformers tests/python/requirements-transformers.txt
  tools/python/python_venv.sh venv-onnx tests/python/requirements-onnx.txt
  wait "$common"
}

# beside VENV ARGUMENTS: pytest with the packages of that environment before those of the common one.
beside() {
  PYTHONPATH=$(echo "$PWD/build/$1"/lib/python*/site-packages) OMP_NUM_THREADS=1 build/venv/bin/python -P -m pytest -q -p no:cacheprovider "${@:2}"
}

# -P: what is tested is the wheel, nothing that lies about here. A process for each core, one thread each: tests that are about threads say how many.
tests() {
  for venv in venv-numpy venv-oldest; do
    "build/$venv/bin/python" -P -m pytest -q -p no:cacheprovider tests/python/environments/numpy_alone.py
  done
  beside venv-kernels tests/python/environments/kernels_hook.py
  beside venv-onnx -n "$(nproc)" --dist loadfile tests/python/onnx/onnx_*.py
  # Whole models alone: the other tests of masks call functions as newer versions have them.
  beside venv-transformers tests/python/environments/oldest_transformers.py tests/python/hf/test_hf_attention.py -k 'oldest_transformers or eager or t5 or scheme'
  OMP_NUM_THREADS=1 build/venv/bin/python -P -m pytest -q -p no:cacheprovider -n "$(nproc)" --dist worksteal --durations=8 "${@:-tests/python}" --ignore tests/python/distributed
  (($# > 0)) || distributed
}

# Four processes that tests share, which several workers would each start: apart from the others. Arguments: more files.
distributed() {
  OMP_NUM_THREADS=1 build/venv/bin/python -P -m pytest -q -p no:cacheprovider --durations=4 tests/python/distributed "$@"
}

# The oldest PyTorch, in the place of the newest: what is written for PyTorch alone, and attention. Arguments go to pytest.
oldest_torch() {
  beside venv-torch-oldest -n "$(nproc)" --dist worksteal tests/python/pytorch tests/python/attention tests/python/search "$@"
}

case ${1:-} in
  --environments) environments ;;
  --tests) shift && tests "$@" ;;
  --distributed) shift && distributed "$@" ;;
  --oldest-torch) shift && oldest_torch "$@" ;;
  *)
    tools/timed.sh "Python environments" tools/python/python_test.sh --environments
    tools/timed.sh "Python wheel" tools/python/python_wheel.sh test venv venv-numpy venv-oldest
    tools/timed.sh "Python tests" tools/python/python_test.sh --tests "$@"
    ;;
esac
