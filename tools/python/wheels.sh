#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The wheels as they are published, into build/dist: tools/python/wheels.sh [x86_64|aarch64|sdist ...] (all three). zig is the compiler, for both
# architectures on either, with its own C++ library inside and a glibc of 2.28: manylinux_2_28 or older. Each is audited: its tag, what it links, the stable
# interface of Python, licences, stubs; the tool in it is run (in qemu where it is foreign). Then it is installed where nothing else is, and used.
# PYTHON names the interpreter, 3.12 or newer for one wheel that serves all of those, 3.11 for 3.11's own.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
tools/python/python_venv.sh venv-wheels tools/python/requirements-wheels.txt
python=$PWD/build/venv-wheels/bin/python dist=$PWD/build/dist
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 315532800)}  # the same bytes from the same commit
export PATH=$PWD/build/venv-wheels/bin:$PATH
mkdir -p "$dist"

# wrappers ARCH: cc, c++, ar and ranlib of zig for it.
wrappers() {
  local folder=$PWD/build/zig/$1 name
  mkdir -p "$folder"
  for name in cc c++ ar ranlib; do
    local target=()
    [[ $name == c* ]] && target=(-target "$1-linux-gnu.2.28" -s)
    printf '#!/bin/sh\nexec "%s" -m ziglang %s %s "$@"\n' "$python" "$name" "${target[*]}" >"$folder/$name"
    chmod +x "$folder/$name"
  done
  echo "$folder"
}

wheel() {
  local arch=$1 raw=build/wheels-zig-$1 suffix
  rm -rf "$raw"
  # A module is found by a name that has the architecture in it; that of this machine's Python unless told otherwise.
  suffix=$("$python" -c 'import sysconfig; print(sysconfig.get_config_var("EXT_SUFFIX"))')
  SETUPTOOLS_EXT_SUFFIX=${suffix/$(uname -m)/$arch} ZIG_ARCH=$arch ZIG_WRAPPERS=$(wrappers "$arch") _PYTHON_HOST_PLATFORM=linux-$arch CMAKE_CXX_COMPILER_LAUNCHER= \
    CMAKE_TOOLCHAIN_FILE=$PWD/cmake/zig.cmake "$python" -m pip wheel -q --disable-pip-version-check --no-deps --no-build-isolation \
    -C install.strip=false -C "build-dir=build/zig/wheel-$arch" -w "$raw" .
  rm -f "$dist"/*"$arch.whl"
  # With the oldest tag that fits: it can be told one of this machine's own architecture alone. wheel_audit.py sees that it is old enough.
  "$python" -m auditwheel repair --plat auto -w "$dist" "$raw"/*.whl
  "$python" tools/python/wheel_audit.py "$dist"/*"$arch.whl"
  tools/python/wheel_use.sh "$dist"/*"$arch.whl" "$python"
}

parts=("$@")
((${#parts[@]})) || parts=(sdist x86_64 aarch64)
for part in "${parts[@]}"; do
  if [[ $part != sdist ]]; then
    wheel "$part"
    continue
  fi
  rm -f "$dist"/*.tar.gz
  "$python" -m build -q --sdist --no-isolation -o "$dist" .
done
ls -l "$dist"
