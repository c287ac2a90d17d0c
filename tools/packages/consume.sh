#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds and runs users' programs against what lies under a prefix, by find_package and by pkg-config, in C++ and in C:
# tools/packages/consume.sh PREFIX FOLDER static|shared. The folder is emptied and built in; the third word says which C++ library must be there.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
prefix=$(realpath "$1")
folder=$2 kind=$3
rm -rf "$folder"
# Nothing of another installation: only the prefix, then the compiler's own folders.
env -u PKG_CONFIG_PATH -u CMAKE_INSTALL_PREFIX cmake -S tests/surface/find_package -B "$folder" -G Ninja --log-level=WARNING -DCMAKE_BUILD_TYPE=Release \
  -DCMAKE_PREFIX_PATH="$prefix" >"$folder.log" 2>&1 || { cat "$folder.log" >&2; exit 1; }
cmake --build "$folder" -j "${JOBS:-$(nproc)}" >"$folder/build.log" || { tail -40 "$folder/build.log" >&2; exit 1; }
ctest --test-dir "$folder" --output-on-failure --no-tests=error >"$folder/test.log" 2>&1 || { cat "$folder/test.log" >&2; exit 1; }

# Which library each was linked with, by what the loader finds.
loaded() { LD_LIBRARY_PATH= ldd "$folder/$1" | awk '/libphasor/ { print $3 }'; }
fail() { echo "consume: $*" >&2 && exit 1; }
for program in consumer consumer_without_exceptions pkgconfig_cpp; do
  case $kind,$(loaded $program) in
    static,) ;;
    shared,"$prefix"/lib*/libphasor.so.0.1) ;;
    *) fail "$program with a $kind library loads '$(loaded $program)'" ;;
  esac
done
for program in consumer_c pkgconfig_c; do  # it holds the C++ library
  [[ $(loaded $program) == "$prefix"/lib*/libphasor_c.so.0 ]] || fail "$program loads '$(loaded $program)'"
done
echo "consume: $kind, $(ctest --test-dir "$folder" -N | sed -n 's/Total Tests: //p') programs ran with $1"
