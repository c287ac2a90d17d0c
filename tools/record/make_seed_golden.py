#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/golden/seed_002.inc: the worked grouped-query example of the seed documents, computed with mpmath at 200 bits.

Nothing of the library is used. Every number is the float64 nearest to the true value.
"""
import sys

import mpmath

BATCH, TOKENS, QUERY_HEADS, KEY_HEADS, HEAD_DIM, BASE = 2, 5, 2, 1, 8, 10000
TABLE_POSITIONS = 11  # the second table of the documents goes on to position 10
PAIRS = HEAD_DIM // 2


def frequency(pair):
    return mpmath.mpf(BASE) ** (-mpmath.mpf(2 * pair) / HEAD_DIM)


def phasor(position, pair):
    return mpmath.expj(position * frequency(pair))


def rotated(heads):
    """The numbers 0, 1, 2, ... as (BATCH, TOKENS, heads, PAIRS) complex numbers, each times its phasor, flattened."""
    out = []
    for index in range(BATCH * TOKENS * heads * PAIRS):
        pair = index % PAIRS
        token = index // (PAIRS * heads) % TOKENS
        product = mpmath.mpc(2 * index, 2 * index + 1) * phasor(token, pair)
        out += [product.real, product.imag]
    return out


def write_array(out, name, comment, values):
    out.write(f"// {comment}\ninline constexpr double {name}[{len(values)}] = {{\n")
    for i in range(0, len(values), PAIRS):
        out.write("    " + " ".join(f"{float(v)!r}," for v in values[i : i + PAIRS]) + "\n")
    out.write("};\n")


def main():
    mpmath.mp.prec = 200
    positions = range(TABLE_POSITIONS)
    with open(sys.argv[1], "w", encoding="ascii") as out:
        out.write("// SPDX-License-Identifier: Apache-2.0\n")
        out.write("// The grouped-query example of seed 002 and the tables of seed 004. Made by tools/record/make_seed_golden.py (mpmath, 200 bits,\n")
        out.write("// rounded once to the nearest float64) without the library; never regenerated to make a test pass.\n")
        write_array(out, "kFrequencies", "(P)", [frequency(i) for i in range(PAIRS)])
        write_array(out, "kAngles", "position * frequency, (positions 0 to 10, P)", [m * frequency(i) for m in positions for i in range(PAIRS)])
        write_array(out, "kCos", "(positions 0 to 10, P)", [phasor(m, i).real for m in positions for i in range(PAIRS)])
        write_array(out, "kSin", "(positions 0 to 10, P)", [phasor(m, i).imag for m in positions for i in range(PAIRS)])
        write_array(out, "kQueryOut", "(2, 5, 2, 8), from q = 0, 1, ... 159", rotated(QUERY_HEADS))
        write_array(out, "kKeyOut", "(2, 5, 1, 8), from k = 0, 1, ... 79", rotated(KEY_HEADS))


main()
