#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the Debian packages, asks lintian, installs them into a root of their own and builds users' programs there: tools/packages/debian.sh
# The packages are left in build/packages/debian.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
folder=build/packages/debian
tools/packages/debian_build.sh "$folder"
# The one tag that is left out wants a bug of Debian's archive to be closed: these packages are not on their way there.
lintian --fail-on error,warning --allow-root --suppress-tags initial-upload-closes-no-bugs "$folder"/*.changes

# dpkg, not dpkg-deb: it refuses a file that two packages have. What they depend on is this machine's.
root=$PWD/$folder/root
rm -rf "$root"
mkdir -p "$root/var/lib/dpkg"/{info,updates,triggers}
touch "$root/var/lib/dpkg"/{status,available}
dpkg --root="$root" --log=/dev/null --force-depends --force-not-root -i "$folder"/*.deb >"$folder/install.log" 2>&1 || { cat "$folder/install.log" >&2; exit 1; }
"$root/usr/bin/phasor" --version
for file in usr/share/man/man1/phasor.1.gz usr/share/bash-completion/completions/phasor usr/share/zsh/vendor-completions/_phasor \
  usr/share/doc/{libphasor-c0,libphasor-dev,phasor}/{copyright,THIRD_PARTY_LICENSES.txt.gz}; do
  [[ -s $root/$file ]] || { echo "debian: $file is not there" >&2; exit 1; }
done
tools/packages/consume.sh "$root/usr" "$folder/consumer" static
for package in "$folder"/*.deb; do
  echo "debian: $(basename "$package"), $(stat -c %s "$package") bytes, needs $(dpkg-deb -f "$package" Depends)"
done
