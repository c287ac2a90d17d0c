#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs the lab's queue on a machine with a GPU and PyTorch and without packages. MODULE: a ready _core.abi3.so; else tools/gpu_python.sh's build.
#   DATA=folder        a store by `python -m lab data`
#   SECONDS_LIMIT=570  no run is begun that would not end in so many seconds, of all of this script
#   PRESET=small, RUN="--only rotary alibi" (more words for `python -m lab run`)
#   RUN="--lanes 3"    several runs at once
#   SMOKE=1            instead: some steps of every encoding, with times and kernels, captured and launched: what to run first on a new machine or version
# Results come as $OUT/results.tar.gz, written anew after each run; what was done before is in lab/results. Words are in $OUT/log.txt.
set -uo pipefail
cd "$(dirname "$0")/.."
out=${OUT:-out} python=${PYTHON:-python3} limit=${SECONDS_LIMIT:-570} begin=$SECONDS
mkdir -p "$out"
folder=python/cuda13/phasor_cuda13
if [ -n "${MODULE:-}" ]; then
  cp "$MODULE" "$folder/_core.abi3.so"
elif [ ! -e "$folder/_core.abi3.so" ]; then
  tools/gpu_python.sh nothing_by_this_name > "$out/build.txt" 2>&1  # builds the module; no test has that name
  [ -e "$folder/_core.abi3.so" ] || { echo "gpu_lab: the module does not build, see build.txt" >&2; exit 1; }
fi
export PYTHONPATH=$PWD/python:$PWD/python/cuda13:$PWD PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 CUBLAS_WORKSPACE_CONFIG=:4096:8
[ -n "${DATA:-}" ] || { echo "gpu_lab: DATA is not set, wanted the folder of a store" >&2; exit 2; }
words=(--preset "${PRESET:-small}" --data "$DATA" --device cuda)
if [ -n "${SMOKE:-}" ]; then
  timeout "$limit" "$python" -m lab smoke "${words[@]}" ${RUN:-} 2>&1 | tee "$out/log.txt"
  exit "${PIPESTATUS[0]}"
fi
left=$((limit - (SECONDS - begin)))
"$python" -m lab run "${words[@]}" --seconds "$left" --results "${RESULTS:-lab/results}" --pack "$out/results.tar.gz" --checkpoints build/lab_checkpoints ${RUN:-} 2>&1 | tee "$out/log.txt"
exit "${PIPESTATUS[0]}"
