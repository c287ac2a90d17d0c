# SPDX-License-Identifier: Apache-2.0
"""The pictures of biases and of tables that meet q or k, for tools/docs/figures.py."""
import numpy as np

import phasor
from figures_style import curves, image


def rows_by_distance(ax, spec, reach):
    """Which row of its table a distance reads."""
    distances = np.arange(-reach, reach + 1)
    ax.step(distances, phasor.Bias(spec).row(distances), where="mid")
    curves(ax, "distance, query - key", "row")


def by_distance(ax, biases, reach, heads=(0,)):
    """What is added to a score by its distance."""
    for label, spec in biases.items():
        values = phasor.Bias(spec).diagonal(0, reach)
        for head in heads:
            ax.plot(values[head], label=f"{label}, head {head}" if len(heads) > 1 else label)
    curves(ax, "distance", "bias")


def fire(ax):
    """The input of FIRE's perceptron: one that hands its input on shows it."""
    through = phasor.Mlp(widths=(1, 1), parameters=(1, 0))
    bias = phasor.Bias(phasor.Fire(mlp=through))
    for query in (512, 2048, 8192):
        at = np.arange(0, query + 1, max(1, query // 256))
        ax.plot(at, bias(np.array([query]), query - at)[0, 0], label=f"query at {query}")
    curves(ax, "distance", "input of the network")


def dynamic_mlp(ax):
    rng = np.random.default_rng(3)
    parameters = np.concatenate([rng.standard_normal(8), rng.uniform(-40, 40, 8), rng.standard_normal(8) / 8, [0]])
    bias = phasor.Bias(phasor.DynamicMlp(mlp=phasor.Mlp(widths=(1, 8, 1), parameters=parameters)))
    ax.plot(np.arange(-64, 65), bias.diagonal(-64, 129)[0])
    curves(ax, "distance, query - key", "bias")


def swin(ax):
    bias, at = phasor.Bias(phasor.SwinTable(heads=1, window=phasor.Window(4, 4))), phasor.positions.window(4, 4)
    image(ax, bias.row(at[:, None] - at[None, :]), "key", "query")


def swinv2(ax):
    for window in (8, 16):
        offsets = np.arange(-window + 1, window)
        ax.plot(offsets, np.sign(offsets) * np.log2(1 + 8 * np.abs(offsets) / 7) / 3, marker=".", label=f"window {window}")
    curves(ax, "offset", "coordinate")


BIAS = {
    "t5": lambda ax: rows_by_distance(ax, phasor.T5Buckets(heads=1), 160),
    "learned-bias": lambda ax: rows_by_distance(ax, phasor.ShawClip(heads=1, left=6, right=2), 10),
    "wavlm": lambda ax: rows_by_distance(ax, phasor.T5Buckets(heads=1, buckets=320, max_distance=800), 1000),
    "kerple": lambda ax: by_distance(
        ax, {"logarithmic": phasor.Kerple(r1=[1.0], r2=[1.0]), "power": phasor.Kerple(kind="power", r1=[0.1], r2=[0.5])}, 512
    ),
    "sandwich": lambda ax: by_distance(ax, {"8 heads": phasor.Sandwich(heads=8)}, 512, heads=(0, 3, 7)),
    "fire": fire,
    "dynamic-mlp": dynamic_mlp,
    "swin": swin,
    "swinv2": swinv2,
}


# ---- Tables that meet q or k ----


def shaw(ax):
    at = np.arange(16)
    image(ax, phasor.Bias(phasor.ShawClip(heads=1, left=4, right=4)).row(at[:, None] - at[None, :]), "key", "query")


def inkling(ax):
    at = np.arange(32)
    profiles = np.stack([np.exp(-at / 4), np.cos(at / 5), at / 32])
    for label, features in {"query a": (2, 0, 0.5), "query b": (0.2, 1, -1)}.items():
        ax.plot(at, np.array(features) @ profiles, label=label)
    curves(ax, "distance", "added to the score")


def cope(ax):
    gates = 1 / (1 + np.exp(-np.random.default_rng(5).standard_normal(48) * 2))
    ax.step(np.arange(48), np.cumsum(gates[::-1])[::-1], where="mid")
    curves(ax, "key", "position, for the last query")


def xlnet(ax):
    segment = np.repeat([0, 1, 2], (5, 4, 6))
    image(ax, (segment[:, None] != segment[None, :]).astype(int), "key", "query", bar=False)


def decomposed(axes):
    rows, columns = np.meshgrid(np.arange(5), np.arange(7), indexing="ij")
    image(axes[0], 2 - rows + 4, "column", "row")
    image(axes[1], 3 - columns + 6, "column", "row")
    axes[0].set_title("row of the vertical table")
    axes[1].set_title("row of the horizontal table")


TABLES = {
    "shaw": shaw,
    "transformer-xl": lambda ax: image(
        ax, phasor.xl_sinusoids(np.arange(63, -1, -1), phasor.XlSinusoids(width=64)).reshape(64, 64), "channel", "row: distance 63 first"
    ),
    "xlnet": xlnet,
    "deberta": lambda ax: rows_by_distance(ax, phasor.DebertaBuckets(heads=1), 600),
    "inkling": inkling,
    "cope": cope,
    "decomposed": decomposed,
}
