#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs a wheel where nothing else is and uses it (wheel_use.py), without a compiler or gnuplot on the PATH: tools/python/wheel_use.sh WHEEL [PYTHON].
# A wheel of another architecture is used in qemu, by the Python that Debian has for it (13, or 12 for a wheel of 3.11), unpacked under build/ and not installed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
wheel=$(realpath "$1") python=${2:-python3} program=$PWD/tools/python/wheel_use.py
arch=$(sed -E 's/.*_(x86_64|aarch64)\.whl$/\1/' <<<"$wheel")
folder=$PWD/build/wheel-use-$arch
rm -rf "$folder"

if [[ $arch == "$(uname -m)" ]]; then
  "$python" -m venv "$folder"
  "$folder/bin/pip" install -q --disable-pip-version-check "$wheel[plot]"
  cd / && exec env -i PATH="$folder/bin" HOME="$folder" "$folder/bin/python" "$program"
fi

declare -A debian=([x86_64]=amd64 [aarch64]=arm64)
suite=trixie version=3.13 ssl=libssl3t64
[[ $wheel != *-cp311-cp311-* ]] || suite=bookworm version=3.11 ssl=libssl3
mkdir -p "$folder"/{apt/lists/partial,apt/archives/partial,root/usr/lib,site}
printf 'Types: deb\nURIs: http://deb.debian.org/debian\nSuites: %s\nComponents: main\nSigned-By: /usr/share/keyrings/debian-archive-keyring.gpg\n' $suite >"$folder/debian.sources"
apt() {  # lists and cache of this machine stay as they are
  apt-get -qq -o APT::Architecture="${debian[$arch]}" -o APT::Architectures="${debian[$arch]}" -o APT::Sandbox::User=root -o Dir::State="$folder/apt" \
    -o Dir::State::status=/dev/null -o Dir::Cache="$folder/apt" -o Dir::Etc::sourcelist="$folder/debian.sources" -o Dir::Etc::sourceparts=/dev/null "$@"
}
(cd "$folder" && apt update && apt download {python,libpython}$version-minimal libpython$version-stdlib libc6 libgcc-s1 libstdc++6 zlib1g libexpat1 libffi8 libbz2-1.0 \
  liblzma5 $ssl libzstd1) >"$folder/apt.log" 2>&1 || { cat "$folder/apt.log" >&2; exit 1; }
for package in "$folder"/*.deb; do dpkg-deb -x "$package" "$folder/root"; done
[[ -e $folder/root/lib ]] || ln -s usr/lib "$folder/root/lib"
# Links from the root lead into this machine's otherwise: amd64's loader is one.
find "$folder/root" -lname '/*' -printf '%p %l\n' | while read -r link target; do ln -sfn "$folder/root$target" "$link"; done
own=$(sed -E 's/.*-([^-]*)\.whl$/\1/; s/\..*//' <<<"$wheel")  # the wheel's platform, then those of NumPy's
"$python" -m pip install -q --disable-pip-version-check --target "$folder/site" --platform "$own" --platform "manylinux_2_28_$arch" --platform "manylinux_2_27_$arch" \
  --python-version $version --only-binary=:all: "$wheel"
export PYTHONHOME=$folder/root/usr PYTHONPATH=$folder/site PATH=/nowhere
cd / && exec "/usr/bin/qemu-$arch" -L "$folder/root" "$folder/root/usr/bin/python$version" "$program" module
