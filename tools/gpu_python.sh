#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the Python core with CUDA from the checkout and .carry/ by g++ and nvcc, as phasor_cuda13 beside the package, and runs tests/python/gpu:
# for machines with a GPU and PyTorch and without packages; pytest is not needed. Results under $OUT (default ./out), objects in build/gpu, which
# tools/gpu_test.sh uses too. Arguments choose tests by words of their names.
set -uo pipefail
cd "$(dirname "$0")/.."
out=${OUT:-out} build=build/gpu jobs=$(nproc) python=${PYTHON:-python3}
mkdir -p "$out" "$build"
say() { printf '%s\n' "$*" | tee -a "$out/summary.txt"; }
folder=python/cuda13/phasor_cuda13

build_module() { # into $folder
  . tools/gpu_build.sh
  [ -d .carry/nanobind ] || { echo "gpu_python: .carry has no nanobind; run tools/make_carry.sh where it is installed" >&2; exit 2; }
  headers=$("$python" -c 'import sysconfig; print(sysconfig.get_path("include"))')
  [ -e "$headers/Python.h" ] || { echo "gpu_python: there is no Python.h in $headers" >&2; exit 2; }

  # The library and the module together: most of the time is one file of nvcc's. What nanobind's CMake gives a module of Python's stable interface.
  module_flags=(-DNDEBUG -DPy_LIMITED_API=0x030C0000 -fvisibility=hidden -fno-strict-aliasing -I.carry/nanobind/include
    -I.carry/nanobind/ext/robin_map/include -Ipython/src "-I$headers")
  compile_module() { # SOURCE: an object in $build, by $MODULE_FLAGS
    local to=$build/module_$(tr / _ <<<"$1").o
    eval "flags=($FLAGS)"
    eval "module_flags=($MODULE_FLAGS)"
    case $1 in */nb_combined.cpp) module_flags+=(-DNB_BUILD -DNB_COMPACT_ASSERTIONS) ;; esac
    g++ "${module_flags[@]}" "${flags[@]}" -c "$1" -o "$to"  # its own headers first: c/ has some of the same names
  }
  export -f compile_module
  export MODULE_FLAGS="${module_flags[*]@Q}"
  begin=$SECONDS
  { find python/src -name '*.cpp'; echo .carry/nanobind/src/nb_combined.cpp; } |
    xargs -P "$jobs" -I{} bash -c 'compile_module {} || exit 255' > "$build/module_log.txt" 2>&1 &
  module=$!
  gpu_build library
  wait "$module" || { say "FAIL: the module does not build"; grep -E 'error' "$build/module_log.txt" | head -20; exit 1; }
  "$nvcc" -shared -cudart static "$build"/module_*.o "${backend[@]}" "$build/libphasor.a" -lgomp -Xlinker --exclude-libs,ALL -o "$folder/_core.abi3.so" ||
    { say "FAIL: the module does not link"; exit 1; }
  say "the module is there after $((SECONDS - begin)) s"
}
if [ -n "${MODULE:-}" ]; then cp "$MODULE" "$folder/_core.abi3.so"; else build_module; fi

export PYTHONPATH=$PWD/python:$PWD/python/cuda13 PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 OUT=$out
"$python" tests/python/gpu/run.py "$@" 2>&1 | tee "$out/gpu_python.txt"
exit "${PIPESTATUS[0]}"
