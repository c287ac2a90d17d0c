#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs a compiler's command line for kernels of Hopper, and fails where ptxas says (C75xx) that it serialised products of warpgroups: the code is
# right then, and half as fast, and it is only said in passing.
output=$("$@" 2>&1)
code=$?
[ -z "$output" ] || printf '%s\n' "$output" >&2
if grep -q '(C75[0-9][0-9])' <<<"$output"; then
  echo "error: products of warpgroups are serialised (docs/design/cuda.md, Hopper)" >&2
  exit 1
fi
exit $code
