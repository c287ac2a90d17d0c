#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/golden/rotary_scalings.txt: the scalings of published models, computed with mpmath at 640 bits.

The formulas are those of the methods' papers and of Hugging Face transformers, on exact reals; nothing of Phasor is used.
Run `python3 tools/record/make_golden.py > tests/golden/rotary_scalings.txt` with mpmath installed. Never regenerated to make a test pass.
"""
import mpmath
from mpmath import mp, mpf

mp.prec = 640


def nearest_double(x):
    with mpmath.workprec(53):
        return float(+x)


def ladder(base, width):
    return [mpf(base) ** (-mpf(2 * i) / width) for i in range(width // 2)]


def gain(factor, mscale):
    return mpf(1) if factor <= 1 else mpf(mscale) * mpmath.log(factor) / 10 + 1


def yarn(base, width, factor, length, truncate):
    def pair_of(turns):
        return width * mpmath.log(length / (2 * mp.pi * turns)) / (2 * mpmath.log(base))

    low, high = pair_of(32), pair_of(1)
    if truncate:
        low, high = mpmath.floor(low), mpmath.ceil(high)
    low, high = max(low, mpf(0)), min(high, mpf(width - 1))
    shares = [min(max((i - low) / (high - low), mpf(0)), mpf(1)) for i in range(width // 2)]
    return [w / factor * s + w * (1 - s) for w, s in zip(ladder(base, width), shares)]


def llama3(base, width, factor, low, high, length):
    out = []
    for w in ladder(base, width):
        wavelength = 2 * mp.pi / w
        if wavelength < mpf(length) / high:
            out.append(w)
        elif wavelength > mpf(length) / low:
            out.append(w / factor)
        else:
            smooth = (length / wavelength - low) / (high - low)
            out.append((1 - smooth) * w / factor + smooth * w)
    return out


def ntk(base, width, alpha):
    return ladder(mpf(base) * mpf(alpha) ** (mpf(width) / (width - 2)), width)


def proportional(base, width, share):
    turning = int(share * width // 2)
    return [w if i < turning else mpf(0) for i, w in enumerate(ladder(base, width))]


def longrope(base, width, factors, factor, length):
    frequencies = [w / f for w, f in zip(ladder(base, width), factors)]
    return frequencies, mpmath.sqrt(1 + mpmath.log(factor) / mpmath.log(length))


def mixed(base, width, factor, b):
    pairs = width // 2
    a = mpmath.log(factor) / mpf(pairs) ** mpf(b)
    return [w * mpmath.exp(-a * mpf(i + 1) ** mpf(b)) for i, w in enumerate(ladder(base, width))]


def cases():
    one = mpf(1)
    yield "llama_2", ladder(10000, 128), one, one
    yield "llama_3_1", llama3(500000, 128, 8, 1, 4, 8192), one, one
    yield "llama_3_2", llama3(500000, 64, 32, 1, 4, 8192), one, one
    yield "gemma_3_global", [w / 8 for w in ladder(1000000, 256)], one, one
    yield "gemma_4_full", proportional(1000000, 512, 0.25), one, one
    yield "qwen_2_5_yarn", yarn(1000000, 128, 4, 32768, True), gain(4, 1), one
    yield "gpt_oss", yarn(150000, 64, 32, 4096, False), gain(32, 1), one
    yield "deepseek_v3", yarn(10000, 64, 40, 4096, True), one, gain(40, 1) ** 2
    yield "deepseek_v2", yarn(10000, 64, 40, 4096, True), gain(40, 0.707) / gain(40, 0.707), gain(40, 0.707) ** 2
    yield ("longrope_long", *longrope(10000, 96, [1 + mpf(i) / 4 for i in range(48)], 32, 4096), one)
    yield "hunyuan_alpha_1000", ntk(10000, 128, 1000), one, one
    yield "dynamic_ntk_20000", ntk(10000, 128, mpf(2) * 20000 / 4096 - 1), one, one
    yield "ntk_mixed_0.625", mixed(10000, 64, 8, 0.625), one, one


def main():
    print("# Made by tools/record/make_golden.py with mpmath at 640 bits; see there. case NAME AMPLITUDE SOFTMAX_SCALE PAIRS, then a line a pair:")
    print("# the nearest float64 of the frequency, and its turns to the nearest 2^-192: whole turns, 192-bit fraction.")
    for name, frequencies, amplitude, softmax_scale in cases():
        print("case", name, nearest_double(amplitude).hex(), nearest_double(softmax_scale).hex(), len(frequencies))
        for w in frequencies:
            whole, fraction = divmod(int(mpmath.nint(w / (2 * mp.pi) * mpf(2) ** 192)), 2**192)
            print(nearest_double(w).hex(), whole, f"{fraction:048x}")


main()
