#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A virtual environment under build/ with what a requirements file names, kept until that changes: tools/python/python_venv.sh NAME REQUIREMENTS.
# Packages come from the machine's own index. PYTHON chooses the interpreter (python3).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
venv=build/$1
"${PYTHON:-python3}" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
  { echo "python: $("${PYTHON:-python3}" --version) is too old, wanted 3.11 or newer; PYTHON names another" >&2; exit 1; }
wanted=$("${PYTHON:-python3}" --version; cat tests/python/requirements.txt "$2")
[[ -f $venv/stamp && $(<"$venv/stamp") == "$wanted" ]] && exit 0
echo "python: making $venv"
rm -rf "$venv"
"${PYTHON:-python3}" -m venv "$venv"
"$venv/bin/pip" install -q --disable-pip-version-check --no-compile -r "$2"  # what is imported is compiled then: a part of it
printf '%s\n' "$wanted" >"$venv/stamp"
