#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs the distribution's packages that a make target needs (demo, test, check, packages, bench, bench-python, lab, fuzz, gallery, wheels, docs, playground; python: what pip install . needs). Silent when nothing is missing.
set -euo pipefail

usage() {
  echo "usage: tools/setup.sh demo|test|check|packages|bench|bench-python|lab|fuzz|gallery|wheels|docs|playground|python" >&2
  exit 2
}

# The cross compiler for the other architecture: its targets run in qemu.
cross_compiler() {
  if [[ $(uname -m) == aarch64 ]]; then echo g++-x86-64-linux-gnu; else echo g++-aarch64-linux-gnu; fi
}

packages_for() {
  local build="g++ make cmake ninja-build ccache libhwy-dev libboost-dev libfmt-dev libcli11-dev nlohmann-json3-dev"
  local python="python3 python3-venv python3-dev"
  local test="$build $python libgtest-dev googletest librapidcheck-dev libmpfr-dev libgmp-dev gnuplot-nox chromium zsh groff-base libdlpack-dev pkg-config"
  local page="emscripten nodejs esbuild katex node-typescript node-jsdom node-d3-axis node-d3-scale node-d3-selection node-d3-shape"
  case $1 in
    demo) echo "$build" ;;
    gallery) echo "$build gnuplot-nox python3" ;;
    wheels) echo "$build $python qemu-user $(cross_compiler)" ;;  # of the cross compiler the C library, for the foreign tool in qemu
    docs) echo "$build $python doxygen fonts-stix" ;;
    bench) echo "$build libbenchmark-dev python3" ;;
    python | bench-python | lab) echo "$build $python" ;;
    test) echo "$test" ;;
    packages) echo "$build $python pkg-config dpkg-dev debhelper lintian" ;;
    playground) echo "$build $page python3" ;;
    fuzz) echo "$build clang-19 libclang-rt-19-dev" ;;
    check) echo "$test clang-19 libomp-19-dev clang-format-19 clang-tidy-19 qemu-user $(cross_compiler) $page bindgen abigail-tools" ;;
    *) usage ;;
  esac
}

missing_of() {
  local package
  for package in "$@"; do
    [[ $(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null) == installed ]] || echo "$package"
  done
}

install_packages() {  # words of a command prefix (sudo or nothing), --, packages
  local prefix=()
  while [[ $1 != -- ]]; do prefix+=("$1") && shift; done
  shift
  echo "setup: installing $*"
  "${prefix[@]}" apt-get update -qq
  "${prefix[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null
}

[[ $# == 1 ]] || usage
packages=$(packages_for "$1")
if ! command -v dpkg-query >/dev/null; then
  echo "setup: this is no Debian or Ubuntu; install what these packages hold, then go on: $packages" >&2
  exit 0
fi
# shellcheck disable=SC2086  # deliberately split into words
mapfile -t missing < <(missing_of $packages)
[[ ${#missing[@]} -gt 0 ]] || exit 0

if [[ $EUID == 0 ]]; then
  install_packages -- "${missing[@]}"
elif command -v sudo >/dev/null && { sudo -n true 2>/dev/null || [[ -t 0 ]]; }; then
  install_packages sudo -- "${missing[@]}"
else
  echo "setup: packages are missing and this user cannot install them. Run as root, then again:" >&2
  echo "  apt-get update && apt-get install -y --no-install-recommends ${missing[*]}" >&2
  exit 1
fi
