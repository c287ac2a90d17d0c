#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares benchmarks of two builds: tools/bench_compare.py BEFORE.json AFTER.json [--only TEXT].

Each kernel's speed is taken as a fraction of the ceiling of its own run (memcpy of the same bytes, the core's fused operations, reading
the cache), so that a machine which is faster in one of the two runs does not decide. The last column is after / before."""
import argparse
import sys

from bench_table import medians


def ceiling_of(name, runs):
    """The benchmark that bounds `name` in the same run; None for what is a time by itself."""
    parts = name.split("/")
    if parts[0] != "attention":
        ceiling = f"memcpy/{parts[1]}"
    elif parts[1] == "decode":
        ceiling = f"attention/read_cache/{parts[2]}"
    else:
        ceiling = "attention/fma_peak"
    return ceiling if ceiling in runs else None


def speed(name, runs):
    """Fraction of the ceiling, or calls per microsecond where there is none."""
    ceiling = ceiling_of(name, runs)
    if ceiling is None:
        return 1e3 / runs[name]["ns"]
    unit = "rate" if runs[name]["rate"] and runs[ceiling]["rate"] else "items"
    if not runs[name][unit] or not runs[ceiling][unit]:
        return 1e3 / runs[name]["ns"]
    return runs[name][unit] / runs[ceiling][unit]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("before")
    parser.add_argument("after")
    parser.add_argument("--only", default="", help="benchmarks whose name contains this")
    arguments = parser.parse_args()
    (old, before), (new, after) = medians(arguments.before), medians(arguments.after)
    if old.get("target") != new.get("target"):
        sys.exit(f"bench_compare: {arguments.before} is of target {old.get('target')}, {arguments.after} of {new.get('target')}, wanted the same")
    print(f"target {new.get('target')}; medians; fraction of the ceiling (or calls per us) before, after, after / before")
    for name in after:
        if name in before and arguments.only in name:
            was, now = speed(name, before), speed(name, after)
            print(f"{name:56}{was:9.3f}{now:9.3f}{now / was:8.2f}")


if __name__ == "__main__":
    main()
