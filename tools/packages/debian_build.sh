#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the Debian packages of the files as they are now, into a folder: tools/packages/debian_build.sh FOLDER.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
mkdir -p "$1"
folder=$(realpath "$1")
tree=$folder/phasor
rm -f "$folder"/*.deb "$folder"/*.buildinfo "$folder"/*.changes
tools/packages/tree.sh "$tree"
cp -r packaging/debian "$tree/debian"

# debhelper gives the build a home of its own, where ccache would begin with nothing.
if [[ ${CMAKE_CXX_COMPILER_LAUNCHER:-} == *ccache ]]; then
  CCACHE_DIR=${CCACHE_DIR:-$(ccache --get-config cache_dir)}
  export CCACHE_DIR CCACHE_BASEDIR=$tree
fi
# Without debug information (-g0), at which nobody looks here: the one difference from what a distribution's machine builds.
(cd "$tree" && DEB_CXXFLAGS_APPEND=-g0 DEB_BUILD_OPTIONS="nodoc noautodbgsym parallel=${JOBS:-$(nproc)}" dpkg-buildpackage -us -uc -b) \
  >"$folder/build.log" 2>&1 || { tail -40 "$folder/build.log" >&2; exit 1; }
