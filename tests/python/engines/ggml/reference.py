# SPDX-License-Identifier: Apache-2.0
"""A rotation by ggml's formula, written out for one pair of one token after the other: over the reals (numbers of 64 bits of mantissa),
and by the float32 steps that ggml's own loop takes."""

from __future__ import annotations

import math

import numpy as np
from library import IMROPE, MROPE, NORMAL, VISION

REAL, F32 = np.longdouble, np.float32


def ramp(rope, real):
    low, high = (
        rope.n_dims * np.log(real(rope.n_ctx_orig) / (real(beta) * 2 * real(math.pi))) / (2 * np.log(real(rope.freq_base)))
        for beta in (rope.beta_fast, rope.beta_slow)
    )
    low, high = max(real(0), np.floor(low)), min(real(rope.n_dims - 1), np.ceil(high))
    return lambda pair: 1 - min(real(1), max(real(0), (real(pair) - low) / max(real(0.001), high - low)))


def axis_of(rope, sector):
    t, h, w, _ = rope.sections
    if rope.mode == IMROPE:
        return sector % 3 if sector < 3 * (t, h, w)[sector % 3] else 3
    return 0 if sector < t else 1 if sector < t + h else 2 if sector < t + h + w else 3


def rungs(rope, pairs):
    """(axis, rung) of each pair: a vision rope's ladder begins again with each section."""
    if not rope.mode & MROPE:
        return [(0, i) for i in range(pairs)]
    total, began, found = sum(rope.sections), {}, []
    for i in range(pairs):
        axis = axis_of(rope, i % total)
        if rope.mode == VISION and (i == 0 or axis != found[-1][0] or i % total == 0):
            began[axis] = i
        found.append((axis, i - began.get(axis, 0)))
    return found


def angle_exact(rope, position, rung, mix, factor):
    theta = REAL(position) * REAL(rope.freq_base) ** (REAL(-2) * rung / rope.n_dims) / REAL(factor)
    scale = REAL(F32(rope.freq_scale))
    return theta * scale if mix is None else theta * scale * (1 - mix) + theta * mix


def angle_ggml(rope, position, rung, mix, factor):
    ratio = F32(REAL(F32(rope.freq_base)) ** REAL(F32(-2.0) / F32(rope.n_dims)))
    theta = F32(position)
    for _ in range(rung):
        theta = F32(theta * ratio)
    kept = F32(theta / F32(factor))
    interpolated = F32(F32(rope.freq_scale) * kept)
    if mix is None:
        return interpolated
    return F32(F32(interpolated * F32(1 - mix)) + F32(kept * mix))


def amplitude_exact(rope):
    gain = 1 + REAL("0.1") * np.log(1 / REAL(F32(rope.freq_scale))) if rope.ext_factor else REAL(1)
    return REAL(F32(rope.attn_factor)) * gain


def amplitude_ggml(rope):
    gain = F32(1) + F32(0.1) * F32(np.log(REAL(F32(1) / F32(rope.freq_scale)))) if rope.ext_factor else F32(1)
    return F32(rope.attn_factor) * gain


def tables(rope, head_dim, positions, factors, ggml):
    """cos and sin, (T, pairs), times the amplitude; and where the pairs' two channels are."""
    pairs = head_dim // 2 if rope.mode == VISION else rope.n_dims // 2
    mixes = [None] * pairs
    if rope.ext_factor:
        real = F32 if ggml else REAL
        mix = ramp(rope, real)
        mixes = [mix(i) * real(rope.ext_factor) for i in range(pairs)]
    angle = angle_ggml if ggml else angle_exact
    cos, sin = (np.empty((positions.shape[1], pairs), REAL) for _ in range(2))
    for token in range(positions.shape[1]):
        for i, (axis, rung) in enumerate(rungs(rope, pairs)):
            theta = REAL(angle(rope, positions[axis, token], rung, mixes[i], 1 if factors is None else factors[i]))
            cos[token, i], sin[token, i] = np.cos(theta), np.sin(theta)
    if ggml:
        cos, sin = cos.astype(F32) * amplitude_ggml(rope), sin.astype(F32) * amplitude_ggml(rope)
    else:
        cos, sin = cos * amplitude_exact(rope), sin * amplitude_exact(rope)
    first = np.arange(pairs) * (2 if rope.mode == NORMAL else 1) + rope.n_offs
    return cos, sin, first, first + (1 if rope.mode == NORMAL else pairs)


def turn(x, cos, sin, first, second, back):
    """In the precision of the tables; other channels as they are."""
    out = x.astype(cos.dtype)
    c, s = cos[None, :, None, :], (-sin if back else sin)[None, :, None, :]
    u, v = out[..., first], out[..., second]
    out[..., first], out[..., second] = u * c - v * s, u * s + v * c
    return out


def rotate(rope, x, positions, factors=None, back=False):
    """Over the reals; and for each value the sum of the sizes of its two products, which roundings are a part of."""
    cos, sin, first, second = tables(rope, x.shape[-1], positions, factors, ggml=False)
    sizes = np.zeros(x.shape, REAL)
    c, s = abs(cos)[None, :, None, :], abs(sin)[None, :, None, :]
    u, v = abs(x[..., first].astype(REAL)), abs(x[..., second].astype(REAL))
    sizes[..., first], sizes[..., second] = u * c + v * s, u * s + v * c
    return turn(x, cos, sin, first, second, back), sizes


def rotate_ggml(rope, x, positions, factors=None, back=False):
    """By ggml's float32 steps, none of them fused, every function the nearest float32: bits."""
    return turn(x, *tables(rope, x.shape[-1], positions, factors, ggml=True), back).astype(x.dtype)


def rotate_nearest(rope, x, positions):
    """By the nearest float32 to the true cos and sin: bits."""
    cos, sin, first, second = tables(rope, x.shape[-1], positions, None, ggml=False)
    return turn(x, cos.astype(F32), sin.astype(F32), first, second, False).astype(x.dtype)
