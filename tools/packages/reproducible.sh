#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The release built again elsewhere gives the same bytes in every installed file, and the Debian packages built again are the same files:
# tools/packages/reproducible.sh, after install.sh and debian.sh, whose results are the first build.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
folder=$PWD/build/packages/reproducible
first=$PWD/build/packages/install/static
rm -rf "$folder"
mkdir -p "$folder"

# $1: a listing of everything under a folder, with kinds, permissions, where links lead, and a sum of the bytes.
listing() {
  (cd "$1" && find . -mindepth 1 -printf '%P %y %m %l\n' | LC_ALL=C sort && find . -type f -print0 | LC_ALL=C sort -z | xargs -0 sha256sum)
}
# $1: what; $2, $3: folders that must hold the same.
compare() {
  listing "$2" >"$folder/$1.first" && listing "$3" >"$folder/$1.second"
  diff "$folder/$1.first" "$folder/$1.second" || { echo "reproducible: $1 differ" >&2; exit 1; }
  echo "reproducible: $1, $(grep -c ' f [0-7]* $' "$folder/$1.first") files are the same"
}

# Another folder, as deep as it likes; another time zone and language; every file compiled anew.
tools/packages/tree.sh "$folder/another/place"
(cd "$folder/another/place" && export CCACHE_DISABLE=1 TZ=Asia/Kathmandu LC_ALL=C
  cmake --preset release --log-level=WARNING -DCMAKE_INSTALL_PREFIX=/usr/local && cmake --build --preset release -j "${JOBS:-$(nproc)}") >"$folder/release.log" 2>&1 ||
  { tail -40 "$folder/release.log" >&2; exit 1; }
DESTDIR=$folder/install cmake --install "$folder/another/place/build/release" >"$folder/install.log"
compare "installed files" "$first" "$folder/install"

tools/packages/debian_build.sh "$folder/debian"
mkdir "$folder/debs_first" "$folder/debs_second"
ln build/packages/debian/*.deb "$folder/debs_first" && ln "$folder"/debian/*.deb "$folder/debs_second"
compare "Debian packages" "$folder/debs_first" "$folder/debs_second"
