#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the wheel with the tools of a virtual environment, and installs it there and in others:
# tools/python/python_wheel.sh test|release VENV [VENV...].
# `test` compiles the library with the flags of the dev preset, at the same depth below the root, so that ccache already has it;
# `release` compiles as users do. A wheel that no source is newer than is not built again.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
kind=$1 builder=build/$2
shift
wheels=build/wheels-$kind
export CXX=${CXX:-c++}  # what CMake itself takes: under another name ccache would miss
settings=(-C "build-dir=build/wheel-$kind")
if [[ $kind == test ]]; then
  settings+=(-C cmake.build-type=RelWithDebInfo -C cmake.define.CMAKE_CXX_FLAGS_RELWITHDEBINFO=-O2 -C cmake.define.PHASOR_WERROR=ON)
fi

built() {
  compgen -G "$wheels/phasor-*.whl" >/dev/null &&
    [[ -z $(find python src include cli man completions cmake CMakeLists.txt pyproject.toml README.md LICENSE packaging/THIRD_PARTY_LICENSES.txt "$builder/stamp" -type f -newer "$wheels/stamp" \
      ! -path '*/__pycache__/*' ! -name '_core*.so' -print -quit) ]]
}

if ! built; then
  echo "python: building the wheel ($kind)"
  rm -rf "$wheels"
  mkdir -p "$wheels"
  : >"$wheels/stamp.begun"
  # Not isolated: the environment has the build's requirements, and a second copy of them would cost a minute.
  "$builder/bin/pip" wheel -q --disable-pip-version-check --no-deps --no-build-isolation "${settings[@]}" -w "$wheels" . ||
    { rm -rf "$wheels"; exit 1; }
  mv "$wheels/stamp.begun" "$wheels/stamp"
fi
for venv in "$@"; do
  [[ build/$venv/installed -nt $wheels/stamp && $(<"build/$venv/installed") == "$kind" ]] && continue
  "build/$venv/bin/pip" install -q --disable-pip-version-check --no-deps --force-reinstall "$wheels"/phasor-*.whl
  echo "$kind" >"build/$venv/installed"
done
