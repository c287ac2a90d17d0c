#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The files of the project as they are now, tracked or new, copied into an empty folder: tools/packages/tree.sh FOLDER.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
rm -rf "$1"
mkdir -p "$1"
git ls-files -z --cached --others --exclude-standard | while IFS= read -r -d '' file; do
  [[ ! -e $file ]] || printf '%s\0' "$file"  # one that was removed and not yet committed
done | tar -c --null --no-recursion -T - | tar -x -C "$1"
