# SPDX-License-Identifier: Apache-2.0
"""Prints benchmarks of attention: plain as GFLOP/s and as a fraction of the core's own peak, schemes over plain, decoding over reading the cache."""


def shape_name(parts):
    """What a case is beside its scheme: direction, dtype, mask, width, tokens."""
    direction, _, dtype, mask, width, tokens = parts
    return (direction, dtype, mask, width, tokens)


def print_plain(runs, peak):
    print(f"one core's fused operations in float32: {peak / 1e9:.1f} GFLOP/s; each figure: GFLOP/s, and as a fraction of that")
    for name, run in sorted(runs.items()):
        if name[1] == "plain":
            label = " ".join((name[0], *name[2:]))
            print(f"  {label:40}{run['items'] / 1e9:9.1f}{run['items'] / peak:8.2f}")


def print_schemes(runs):
    plain = {shape_name(name): run["items"] for name, run in runs.items() if name[1] == "plain"}  # operations a second, those of plain in all
    rows = {name: plain[shape_name(name)] / run["items"] for name, run in runs.items() if name[1] != "plain" and shape_name(name) in plain}
    if rows:
        print("time over plain attention of the same shape")
    for name, ratio in sorted(rows.items()):
        print(f"  {' '.join(name):56}{ratio:8.2f}")


def print_decoding(runs):
    rows = {tuple(name.split("/")[1:]): run for name, run in runs.items()}
    decoded = {name: run for name, run in rows.items() if name[0] == "decode"}
    if decoded:
        print("decoding: GB/s of keys and values, and time over reading them")
    for name, run in sorted(decoded.items()):
        read = rows[("read_cache", name[1])]["rate"]
        print(f"  {' '.join(name[1:]):40}{run['rate'] / 1e9:9.1f}{read / run['rate']:8.2f}")


def print_attention(runs):
    """runs: what bench_table.medians gives."""
    cases = {tuple(name.split("/")[1:]): run for name, run in runs.items() if name.split("/")[1] in ("forward", "backward")}
    print_plain(cases, runs["attention/fma_peak"]["items"])
    print_schemes(cases)
    print_decoding(runs)
