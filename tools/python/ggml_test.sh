#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Phasor's backend in a real ggml, on the CPU: built against an installed Phasor and the ggml of a wheel, then every kind of rope and ggml's own scheduler.
# Part of make test-engines. Arguments go to pytest.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
. tools/python/engine_steps.sh
work=build/ggml
libraries() { echo build/venv-ggml/lib/python3*/site-packages/pywhispercpp.libs; }

# The package index has the header in a source distribution alone; pip also prepares to build that, which takes most of the time here.
sources() {
  local wanted
  wanted=$(grep ^pywhispercpp tests/python/requirements-ggml.txt)
  [[ -f $work/sources/stamp && $(<"$work/sources/stamp") == "$wanted" ]] && return
  rm -rf "$work/sources" && mkdir -p "$work/sources"
  build/venv-ggml/bin/pip download -q --disable-pip-version-check --no-deps --no-binary pywhispercpp -d "$work/sources" "$wanted"
  tar -xzf "$work"/sources/pywhispercpp-*.tar.gz -C "$work/sources" --wildcards '*/ggml/CMakeLists.txt' '*/ggml/include/*' '*/ggml/src/ggml-backend-impl.h'
  printf '%s\n' "$wanted" >"$work/sources/stamp"
}

environment() {
  tools/python/python_venv.sh venv-ggml tests/python/requirements-ggml.txt
  sources
  # As deep below the sources as build/dev, and with its flags: ccache then has its objects.
  cmake --preset dev --log-level=WARNING -B build/dev_library -DPHASOR_BUILD_CLI=OFF -DPHASOR_BUILD_TESTS=OFF -DCMAKE_INSTALL_PREFIX="$PWD/$work/prefix" >/dev/null
  cmake --build build/dev_library -j "${JOBS:-$(nproc)}" >"$work/phasor.log" || { tail -40 "$work/phasor.log" >&2; exit 1; }
  cmake --install build/dev_library >"$work/install.log"
  cmake -G Ninja --log-level=WARNING -S adapters/ggml -B "$work/backend" -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_FLAGS=-Werror -DCMAKE_PREFIX_PATH="$PWD/$work/prefix" \
    -DGGML_SOURCE_DIR="$(echo "$PWD/$work"/sources/*/whisper.cpp/ggml)" -DGGML_BASE_LIBRARY="$(echo "$PWD"/$(libraries)/libggml-base-*)" >/dev/null
  cmake --build "$work/backend" >"$work/backend.log" || { tail -40 "$work/backend.log" >&2; exit 1; }
}

tests() {
  # The wheel's libraries have names with a hash each; the one without base or cpu is the top.
  local base top
  base=$(echo "$PWD"/$(libraries)/libggml-base-*)
  top=$(find "$PWD"/$(libraries) -name 'libggml-*' ! -name 'libggml-base-*' ! -name 'libggml-cpu-*')
  PHASOR_GGML_LIBRARIES=$base:$top PHASOR_GGML_BACKEND=$PWD/$work/backend/libggml-phasor.so \
    build/venv-ggml/bin/python -P -m pytest -q -p no:cacheprovider --noconftest --import-mode=prepend \
    tests/python/engines/ggml/rope_of_ggml.py tests/python/engines/ggml/schedule_by_ggml.py "$@"
}

engine_steps ggml "$@"
