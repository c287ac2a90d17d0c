#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs a part of make test or make check and says how long it took, wall time and processor time: tools/timed.sh NAME COMMAND...
# The lines are kept in build/times.txt (TIMES names another file) until tools/timed.sh --begin; tools/timed.sh --all WHAT prints them again, with their sum.
# Where TIMES_KEPT is set both do nothing: .ci/run runs make test and make check, and begins and ends for them.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
mkdir -p build
times=${TIMES:-build/times.txt}

case ${1:-} in
  --begin)
    [ -n "${TIMES_KEPT:-}" ] || : >"$times"
    exit 0
    ;;
  --all)
    [ -z "${TIMES_KEPT:-}" ] || exit 0
    echo "$2:"
    awk -F'\t' '{ printf "  %-28s %6.1f min, processors %6.1f min\n", $1, $2 / 60, $3 / 60; wall += $2; cpu += $3 }
                END { printf "  %-28s %6.1f min, processors %6.1f min\n", "in all", wall / 60, cpu / 60 }' "$times"
    exit 0
    ;;
esac

name=$1
shift
begun=$(date +%s.%N)
"$@"
status=$?
used=$(mktemp)
times >"$used"  # of this shell, then of what it ran: minutes and seconds, user and system
tail -1 "$used" | tr 'ms' '  ' | awk -v name="$name" -v begun="$begun" -v ended="$(date +%s.%N)" \
  '{ printf "%s\t%.1f\t%.1f\n", name, ended - begun, 60 * ($1 + $3) + $2 + $4 }' >>"$times"
rm -f "$used"
tail -1 "$times" | awk -F'\t' '{ printf "time: %s took %.1f min, processors %.1f min\n", $1, $2 / 60, $3 / 60 }'
exit "$status"
