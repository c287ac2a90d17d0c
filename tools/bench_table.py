#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads Google Benchmark's JSON and prints each kernel as a fraction of memcpy of the same bytes in the same run."""
import json
import statistics
import sys

import attention_table


def medians(path):
    with open(path, encoding="utf-8") as file:
        data = json.load(file)
    runs = {}
    for run in data["benchmarks"]:
        if run.get("run_type", "iteration") != "iteration":
            continue
        if run.get("error_occurred"):
            sys.exit(f"{run['name']}: {run.get('error_message', 'failed')}")
        runs.setdefault(run["run_name"].removesuffix("/real_time"), []).append(run)
    return data["context"], {
        name: {
            "ns": statistics.median(r["real_time"] for r in group),
            "rate": statistics.median(r.get("bytes_per_second", 0) for r in group),
            "items": statistics.median(r.get("items_per_second", 0) for r in group),
        }
        for name, group in runs.items()
    }


def main():
    context, runs = medians(sys.argv[1])
    if "attention/fma_peak" in runs:
        print(f"target {context.get('target')}, version {context.get('version')}; medians")
        return attention_table.print_attention(runs)
    print(f"target {context.get('target')}, version {context.get('version')}; medians; speed as a fraction of memcpy of the same bytes")
    places = [p for p in ("L2", "L3", "DRAM") if f"memcpy/{p}" in runs]
    kernels = []
    for name in runs:
        kernel, place = name.split("/", 1)
        if place in places and kernel not in kernels:
            kernels.append(kernel)
    print(f"{'':36}" + "".join(f"{p:>18}" for p in places))
    for kernel in kernels:
        row = f"{kernel:36}"
        for place in places:
            run = runs[f"{kernel}/{place}"]
            row += f"{run['rate'] / runs[f'memcpy/{place}']['rate']:8.2f} {run['rate'] / 1e9:6.1f} GB/s"
        print(row)
    for name, run in runs.items():
        kernel, place = name.split("/", 1)
        if place in places:
            continue
        per_item = f" {1e9 / run['items']:10.1f} ns a row" if run["items"] else f" {run['ns'] / 1e3:10.2f} us a call"
        print(f"{name:44}{per_item}")


if __name__ == "__main__":
    main()
