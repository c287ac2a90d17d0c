#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the Conan package (static, shared, without OpenMP) and runs its test_package, with a home under build/ and without servers: tools/packages/conan.sh
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
tools/python/python_venv.sh venv-packages packaging/requirements.txt
folder=$PWD/build/packages/conan
rm -rf "$folder"
mkdir -p "$folder"
export CONAN_HOME=$folder/home CCACHE_BASEDIR=$folder
conan=build/venv-packages/bin/conan
"$conan" profile detect >"$folder/profile.log" 2>&1
"$conan" remote remove '*' >>"$folder/profile.log" 2>&1
tools/packages/tree.sh "$folder/tree"
for option in shared=False shared=True with_openmp=False; do
  log=$folder/$option.log
  "$conan" create "$folder/tree/packaging/conan" --no-remote -s compiler.cppstd=20 -o "phasor/*:$option" -c tools.cmake.cmaketoolchain:generator=Ninja \
    -c tools.build:jobs="${JOBS:-$(nproc)}" >"$log" 2>&1 || { tail -60 "$log" >&2; exit 1; }
  echo "conan: $option, $(grep 'tests passed' "$log")"
done
