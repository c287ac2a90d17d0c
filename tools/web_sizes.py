#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints what the playground weighs, raw and as gzip sends it, and fails when a part is over its limit: tools/web_sizes.py [SITE]."""
import gzip
import sys
from pathlib import Path

LIMITS = {"wasm": 680, "scripts and styles": 80, "offline file": 3500}  # kB; the first two as gzip


def parts_of(site):
    """(name, files, whether gzip counts) of each part."""
    scripts = sorted(f for f in site.iterdir() if f.suffix in (".js", ".css"))
    yield "wasm", [site / "phasor.wasm"], True
    yield "scripts and styles", scripts, True
    yield "offline file", [site / "phasor-playground.html"], False


def weigh(site):
    """(name, bytes, bytes as gzip, the limit in kB, whether it is over)."""
    for name, files, packed in parts_of(site):
        raw = sum(len(f.read_bytes()) for f in files)
        small = sum(len(gzip.compress(f.read_bytes(), 9, mtime=0)) for f in files)
        yield name, raw, small, LIMITS[name], (small if packed else raw) > 1000 * LIMITS[name]


def main():
    site = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parents[1] / "build/playground/site")
    over = False
    for name, raw, small, limit, heavy in weigh(site):
        over |= heavy
        print(f"  {'OVER ' if heavy else 'ok   '} {name:<20} {raw / 1000:8.1f} kB, gzip {small / 1000:7.1f} kB, limit {limit} kB")
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main())
