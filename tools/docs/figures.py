#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws the pictures of the encodings' pages from the library's own numbers: tools/docs/figures.py FOLDER. One function per picture."""
import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402
import numpy as np  # noqa: E402

import phasor  # noqa: E402
from phasor import positions  # noqa: E402

sys.path.insert(0, str(Path(__file__).resolve().parent))
from figures_bias import BIAS, TABLES  # noqa: E402
from figures_style import curves, image, save  # noqa: E402

PLAIN = phasor.Rotary(head_dim=128)


def ratios(ax, rotaries, plain=PLAIN):
    """What scalings make of the frequency of each pair."""
    for label, rope in rotaries.items():
        ax.plot(rope.frequencies / plain.frequencies, label=label)
    ax.set_ylim(0, 1.05)
    curves(ax, "pair", "frequency / as trained")


def scaled(scaling, **fields):
    return phasor.Rotary(head_dim=128, scaling=scaling, **fields)


def dynamic(times):
    return scaled(phasor.DynamicNtkScaling(factor=2, trained_length=4096, length=4096 * times))


def longrope(ax):
    lists = dict(short_factors=[1.0] * 64, long_factors=[1.0] * 32 + [8.0] * 32, original_length=4096, factor=8)
    ratios(ax, {"short list": scaled(phasor.LongRopeScaling(**lists, length=4096)), "long list": scaled(phasor.LongRopeScaling(**lists, length=4097))})


def llama3(ax):
    plain = phasor.Rotary(head_dim=128, base=500000)
    ratios(ax, {"llama3": scaled(phasor.Llama3Scaling(factor=8), base=500000)}, plain)


SCALINGS = {
    "linear": lambda ax: ratios(ax, {"linear": scaled(phasor.LinearScaling(factor=4))}),
    "ntk": lambda ax: ratios(ax, {"ntk": scaled(phasor.NtkScaling(alpha=4))}),
    "ntk-mixed": lambda ax: ratios(
        ax, {"fixed": scaled(phasor.NtkMixedScaling(factor=4)), "mixed": scaled(phasor.NtkMixedScaling(factor=4, mixed_exponent=0.625))}
    ),
    "dynamic-ntk": lambda ax: ratios(ax, {f"{times} x": dynamic(times) for times in (1, 2, 4, 8)}),
    "yarn": lambda ax: ratios(ax, {"yarn": scaled(phasor.YarnScaling(factor=4, original_length=4096))}),
    "longrope": longrope,
    "llama3": llama3,
    "proportional": lambda ax: ratios(ax, {"proportional": scaled(phasor.ProportionalScaling(share=0.25))}),
}


def seen(ax, maps, query=255):
    """The distance that a query sees a key at, by the true distance."""
    distances = np.arange(query + 1)
    ax.plot(distances, distances, color="#bbbbbb", label="plain rotary")
    for label, one in maps.items():
        ax.plot(distances, [positions.mapped_distance(one, query, query - r) for r in distances.tolist()], label=label)
    curves(ax, "distance", "distance seen")


MAPS = {
    "rerope": lambda ax: seen(ax, {"ReRoPE": positions.ReRope(32), "leaky ReRoPE": positions.LeakyReRope(32, 8)}),
    "self-extend": lambda ax: seen(ax, {"Self-Extend": positions.SelfExtend(32, 8)}),
    "dual-chunk": lambda ax: seen(ax, {"dual chunk": positions.DualChunk(64, 16)}),
}


# ---- Rotary ----


def rope_2d(ax):
    rope = phasor.Rotary(head_dim=64, axes=phasor.Axes(sections=(16, 16), ladder="own"), base=100)
    rows = rope(np.ones((1, 225, 1, 64), np.float32), positions=positions.from_grids([(1, 15, 15)]))[0, :, 0].astype(np.float64)
    image(ax, (rows @ rows[112]).reshape(15, 15) / 64, "column", "row")


def rope_mixed(ax):
    rng = np.random.default_rng(0)
    for head, color in enumerate(("#1f77b4", "#d62728")):
        angle = rng.uniform(0, 2 * np.pi) + np.repeat([0, np.pi / 2], 8)
        size = 10.0 ** (-np.tile(np.arange(8), 2) / 8)
        ax.quiver(np.zeros(16), np.zeros(16), size * np.cos(angle), size * np.sin(angle), color=color, angles="xy", scale_units="xy", scale=1,
                  width=0.006, label=f"head {head}")
    ax.set(xlim=(-1.1, 1.1), ylim=(-1.1, 1.1), aspect="equal")
    curves(ax, "radians per column", "radians per row")


def dinov3(ax):
    rope = phasor.Rotary(head_dim=64, base=100, unit="turns", axes=phasor.Axes(sections=(16, 16), ladder="own"))
    centres = np.linspace(-1, 1, 33)
    for pair in (0, 4, 8, 15):
        ax.plot(centres, centres * rope.frequencies[pair] / (2 * np.pi), label=f"pair {pair}")
    curves(ax, "coordinate of the patch", "turns")


def mrope(ax):
    qwen3 = [1 if i % 3 == 1 and i < 60 else 2 if i % 3 == 2 and i < 60 else 0 for i in range(64)]
    rows = np.array([np.repeat([0, 1, 2], (16, 24, 24)), qwen3])
    ax.imshow(rows, aspect="auto", cmap=matplotlib.colors.ListedColormap(["#4477aa", "#ee6677", "#228833"]), interpolation="nearest")
    ax.set_yticks([0, 1], ["Qwen2-VL", "Qwen3-VL"])
    ax.set_xlabel("pair: blue frame, red row, green column")


def xpos(ax):
    distances = np.arange(0, 2049, 8)
    for i in (0, 32, 63):
        zeta = (2 * i / 128 + 0.4) / 1.4
        ax.plot(distances, zeta ** (distances / 512), label=f"pair {i}")
    curves(ax, "distance", "factor on the product")


def temperature(ax):
    at = np.arange(0, 65536, 64)
    kinds = {"log-n, L = 2048": positions.QueryTemperature(kind="log_n", length=2048),
             "Llama 4": positions.QueryTemperature(kind="floored_log", scale=0.1, length=8192, shift=1)}
    for label, kind in kinds.items():
        ax.plot(at, positions.temperature(kind, at), label=label)
    curves(ax, "position", "factor on the query")


ROTARY = {"rope-2d": rope_2d, "rope-mixed": rope_mixed, "dinov3": dinov3, "mrope": mrope, "xpos": xpos, "temperature": temperature}


# ---- Added ----


def sinusoidal_2d(ax):
    rows = phasor.Sinusoidal(64, axis_widths=(32, 32), base=100)(positions.from_grids([(1, 15, 15)]))[0].astype(np.float64)
    image(ax, (rows @ rows[112]).reshape(15, 15), "column", "row")


def fourier(ax):
    ladders = {"geometric": phasor.GeometricLadder(), "shift 1": phasor.GeometricLadder(shift=1),
               "bands, even": phasor.BandLadder(highest=32), "bands, ratio": phasor.BandLadder(highest=32, spacing="ratio")}
    for label, ladder in ladders.items():
        ax.plot(phasor.Sinusoidal(32, ladder=ladder).frequencies, marker=".", label=label)
    ax.set_yscale("log")
    curves(ax, "pair", "radians per unit")


def smooth_table(rows, width, seed=0):
    """Rows that change slowly, as learned ones do."""
    return np.cumsum(np.random.default_rng(seed).standard_normal((rows, width)), axis=0).astype(np.float32)


def alike(table):
    table = table / np.linalg.norm(table, axis=1, keepdims=True)
    return table @ table.T


def learned(ax):
    table = np.full((96, 32), np.nan)
    table[:64] = smooth_table(64, 32)
    image(ax, table, "channel", "position")
    ax.set_facecolor("#dddddd")


def resampled(axes):
    grid = np.random.default_rng(1).standard_normal((4, 4, 1)).astype(np.float32)
    image(axes[0], grid[:, :, 0], "column", "row", bar=False)
    image(axes[1], phasor.resample_table(grid, (12, 12))[:, :, 0], "column", "row", bar=False)


def abacus(ax):
    names = list("12+345=")
    ids = [[1, 2, 10, 3, 4, 5, 11]]
    ax.bar(range(7), positions.abacus(ids, digits=range(10))[0])
    ax.set_xticks(range(7), names)
    curves(ax, "token", "position")


def randomised(ax):
    drawn = positions.random(16, 128, seed=7, batch=8)
    for row, at in enumerate(drawn):
        ax.plot(at, np.full(16, row), "|", markersize=12, color="#4477aa")
    curves(ax, "position", "draw")


def nope(ax):
    distances = np.arange(0, 513)
    ax.plot(distances, phasor.analysis.decay(PLAIN, distances) / 64, label="rotary")
    ax.plot(distances, np.ones(513), label="none")
    curves(ax, "distance", "mean score / largest")


ADDITIVE = {
    "sinusoidal-2d": sinusoidal_2d,
    "fourier": fourier,
    "learned": learned,
    "hierarchical": lambda ax: image(ax, alike(phasor.hierarchical_table(smooth_table(8, 32), 64)), "position", "position"),
    "resampled": resampled,
    "randomised": randomised,
    "abacus": abacus,
    "nope": nope,
}


def main(folder):
    folder.mkdir(parents=True, exist_ok=True)
    drawn = {**ADDITIVE, **ROTARY, **SCALINGS, **MAPS, **BIAS, **TABLES}
    for name, draw in drawn.items():
        figure, axes = plt.subplots(1, 2 if name in ("resampled", "decomposed") else 1, figsize=(6.4, 3.2), layout="constrained")
        draw(axes)
        save(figure, folder / f"{name}.svg")
    print(f"docs: {len(drawn)} pictures in {folder}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
