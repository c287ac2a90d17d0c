#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# make install with DESTDIR, and the same with a shared C++ library; what was installed is looked at and used by programs: tools/packages/install.sh
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
folder=build/packages/install
rm -rf "$folder"
mkdir -p "$folder"
make --no-print-directory install DESTDIR="$PWD/$folder/static" PREFIX=/usr/local >"$folder/static.log" || { tail -40 "$folder/static.log" >&2; exit 1; }
# As deep below the sources as build/release: ccache then has its objects.
cmake --preset release --log-level=WARNING -B build/release_shared -DBUILD_SHARED_LIBS=ON -DCMAKE_INSTALL_PREFIX=/usr/local >/dev/null
cmake --build build/release_shared -j "${JOBS:-$(nproc)}" >"$folder/shared.log" || { tail -40 "$folder/shared.log" >&2; exit 1; }
DESTDIR=$folder/shared cmake --install build/release_shared >"$folder/shared_install.log"

fail() { echo "install: $*" >&2 && exit 1; }
soname() { readelf -d "$1" | sed -n 's/.*(SONAME).*\[\(.*\)\].*/\1/p'; }
for kind in static shared; do
  root=$folder/$kind/usr/local
  for file in bin/phasor include/phasor/phasor.hpp include/phasor/phasor.h lib/libphasor_c.so.0 lib/cmake/phasor/phasor-config.cmake lib/pkgconfig/phasor.pc \
    lib/pkgconfig/phasor_c.pc share/man/man1/phasor.1 share/bash-completion/completions/phasor share/zsh/site-functions/_phasor \
    share/doc/phasor/LICENSE share/doc/phasor/THIRD_PARTY_LICENSES.txt; do
    [[ -s $root/$file ]] || fail "$kind: $file is not there"
  done
  [[ $(soname "$root/lib/libphasor_c.so") == libphasor_c.so.0 ]] || fail "$kind: libphasor_c.so has the name $(soname "$root/lib/libphasor_c.so")"
  # Nothing may name the place where it was built or the one it waits in.
  ! grep -rlF -e "$PWD" "$root" || fail "$kind: these files name $PWD"
  LD_LIBRARY_PATH=$root/lib "$root/bin/phasor" --version
  tools/packages/consume.sh "$root" "$folder/$kind-consumer" "$kind"
done
[[ $(soname "$folder/shared/usr/local/lib/libphasor.so") == libphasor.so.0.1 ]] || fail "libphasor.so has the name $(soname "$folder/shared/usr/local/lib/libphasor.so")"
