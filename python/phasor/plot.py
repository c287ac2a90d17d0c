# SPDX-License-Identifier: Apache-2.0
"""Pictures on matplotlib: what the library computes, put on axes. The same as the tool's (`phasor plot`); nothing is computed here.

Where a rotary encoding is taken, a `phasor.Rotary`, a `RotarySpec`, or a config as `Rotary.from_config` takes it will do. Functions draw on
`ax`, or on a new figure, and return the Axes; those of several panels draw a figure of their own and return an array of Axes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from phasor import analysis
from phasor._additive import Sinusoidal
from phasor._bias import Bias
from phasor._bias_specs import Alibi, BiasSpec
from phasor._numbers import integers
from phasor._rotary import Rotary
from phasor._spec import RotarySpec, Scaling

__all__ = ["bias", "clocks", "decay", "error", "scaling", "similarity", "sinusoid"]


def __dir__() -> list[str]:
    return sorted(__all__)


# Okabe and Ito's colours, told apart by colour-blind eyes; black comes last, yellow is left out: too pale on white.
_COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#000000")
_MOST_PANELS = 12
_MOST_TICKS = 9
_ERROR_POSITIONS = tuple(step * 10**ten for ten in range(7) for step in (1, 2, 5)) + (10**7,)
_SCALING_NAMES = {"DynamicNtk": "dynamic", "NtkMixed": "ntk-mixed", "LongRope": "longrope"}


def _pyplot() -> Any:
    try:
        from matplotlib import pyplot
    except ImportError:
        raise ImportError("phasor.plot: needs matplotlib, wanted: pip install matplotlib") from None
    return pyplot


def _axes(ax: Any, size: tuple[float, float] = (8, 5)) -> Any:
    return _pyplot().subplots(figsize=size, layout="constrained")[1] if ax is None else ax


def _label(spec: RotarySpec) -> str:
    """The encoding in a few words: its base, its scaling and by how much that scales."""
    scaling = type(spec.scaling).__name__.removesuffix("Scaling")
    words = [f"base {spec.base:g}", _SCALING_NAMES.get(scaling, scaling.lower())]
    words += [f"{name} {getattr(spec.scaling, name):g}" for name in ("factor", "alpha", "share") if hasattr(spec.scaling, name)]
    return ", ".join(words)


def _named(rotaries: Any) -> dict[str, Rotary]:
    """Encodings by name: of a dict of them its own names, else what they are. Any other dict is a config."""
    if isinstance(rotaries, dict) and all(isinstance(one, (Rotary, RotarySpec)) for one in rotaries.values()):
        return {name: analysis.rotary_of(one) for name, one in rotaries.items()}
    several = rotaries if isinstance(rotaries, (list, tuple)) else [rotaries]
    made = [analysis.rotary_of(one) for one in several]
    names = [_label(one.spec) for one in made]
    return {name if names.count(name) == 1 else f"{name} ({i})": one for i, (name, one) in enumerate(zip(names, made))}


def _ticks(axis: Any, names: Any) -> None:
    """At most _MOST_TICKS of the names, evenly."""
    steps = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
    step = next((nice for nice in steps if nice * _MOST_TICKS >= len(names)), steps[-1])
    places = range(0, len(names), step)
    axis.set_ticks(list(places), [str(names[i]) for i in places])


def _cells(ax: Any, values: np.ndarray, names: tuple[Any, Any], **options: Any) -> Any:
    """A value in each cell in colour, row 0 at the top."""
    image = ax.imshow(values, cmap="viridis", interpolation="nearest", **options)
    _ticks(ax.yaxis, names[0])
    _ticks(ax.xaxis, names[1])
    return image


def _curves(ax: Any, title: str, x_label: str, y_label: str) -> None:
    ax.set(title=title, xlabel=x_label, ylabel=y_label)
    ax.grid(color="#dddddd")
    ax.set_axisbelow(True)
    # Below: curves leave no corner free.
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.12), ncols=2, fontsize="small", frameon=False)


def decay(rotaries: Any, distances: Any = range(0, 2049, 4), *, log: bool = False, ax: Any = None) -> Any:
    """S by distance, a curve for each encoding: one, a list, or a dict by name.

    >>> import phasor
    >>> ax = phasor.plot.decay([phasor.Rotary(head_dim=64), phasor.Rotary(head_dim=64, base=5e5)], range(100))
    >>> [line.get_label() for line in ax.lines]
    ['base 10000, unscaled', 'base 500000, unscaled']
    """
    ax = _axes(ax)
    at = integers(distances, "distances").reshape(-1)
    for i, (name, rotary) in enumerate(_named(rotaries).items()):
        ax.plot(at, analysis.decay(rotary, at), label=name, color=_COLORS[i % len(_COLORS)], linestyle="-" if i < len(_COLORS) else "--")
    if log:
        ax.set_xscale("log")
    ax.margins(x=0)
    _curves(ax, "Decay of the score with distance", "distance (positions)", "S: score of q and k, length 1 in each pair")
    return ax


def similarity(rotary: Any, positions: Any = range(128), *, ax: Any = None) -> Any:
    """Cosine similarity of every position with every other, as a heat map.

    >>> import phasor
    >>> phasor.plot.similarity(phasor.Rotary(head_dim=16), range(8)).images[0].get_array().shape
    (8, 8)
    """
    ax = _axes(ax, (6.4, 5.4))
    rotary = analysis.rotary_of(rotary)
    at = integers(positions, "positions").reshape(-1)
    image = _cells(ax, analysis.similarity(rotary, positions=at), (at, at))
    ax.figure.colorbar(image, ax=ax, label="cosine similarity")
    ax.set(title=f"Similarity of positions: {_label(rotary.spec)}", xlabel="position", ylabel="position")
    return ax


def sinusoid(encoding: Any, positions: Any = range(100), *, ax: Any = None) -> Any:
    """Sine and cosine of each pair at each position, as a heat map: of a Sinusoidal its values, of a rotary encoding those side by side.

    >>> import phasor
    >>> phasor.plot.sinusoid(phasor.Sinusoidal(8), range(5)).images[0].get_array().shape
    (5, 8)
    """
    ax = _axes(ax)
    at = integers(positions, "positions").reshape(-1)
    if isinstance(encoding, Sinusoidal):
        values, name = encoding(at, np.float64), f"width {encoding.width}, {encoding.order}"
        label = "channel"
    else:
        rotary = analysis.rotary_of(encoding)
        cos, sin = rotary.cos_sin(at, np.float64)
        values, name = np.stack([sin, cos], axis=-1).reshape(len(at), -1), _label(rotary.spec)
        label = "channel (even: sine, odd: cosine)"
    image = _cells(ax, values, (at, range(values.shape[1])), aspect="auto")
    ax.figure.colorbar(image, ax=ax, label="value")
    ax.set(title=f"Sinusoid: {name}", xlabel=label, ylabel="position")
    return ax


def _some_pairs(pairs: int) -> list[int]:
    """The first, the last, and some between."""
    return sorted({(pairs - 1) * i // 5 for i in range(6)})


def _clock(ax: Any, title: str, amplitude: float, hands: np.ndarray) -> None:
    """Hands (n, 2) from the middle, inside a circle of the amplitude."""
    ax.add_patch(_pyplot().Circle((0, 0), amplitude, fill=False, edgecolor="#999999"))
    zeros = np.zeros(len(hands))
    ax.quiver(zeros, zeros, hands[:, 0], hands[:, 1], color=_COLORS, angles="xy", scale_units="xy", scale=1, width=0.014)
    reach = 1.08 * amplitude
    ax.set(title=title, xlim=(-reach, reach), ylim=(-reach, reach), aspect="equal")
    ax.set_axis_off()


def clocks(rotary: Any, positions: Any = (0, 1, 10, 100, 1000), pairs: Any = None) -> np.ndarray:
    """Where positions (at most 7) turn pairs to, a clock for each; pairs are six from the first to the last unless given.

    >>> import phasor
    >>> [ax.get_title() for ax in phasor.plot.clocks(phasor.Rotary(head_dim=4), [0, 1])]
    ['pair 0: a turn in 6.3', 'pair 1: a turn in 628']
    """
    rotary = analysis.rotary_of(rotary)
    at = integers(positions, "positions").reshape(-1)
    cos, sin = rotary.cos_sin(at, np.float64)  # (T, P)
    chosen = _some_pairs(cos.shape[1]) if pairs is None else integers(pairs, "pairs").reshape(-1).tolist()
    if not 1 <= len(at) <= len(_COLORS):
        raise ValueError(f"clocks: positions are {len(at)}, wanted 1 to {len(_COLORS)}: more hands could not be told apart")
    if not 1 <= len(chosen) <= _MOST_PANELS or not all(0 <= pair < cos.shape[1] for pair in chosen):
        raise ValueError(f"clocks: pairs are {chosen}, wanted 1 to {_MOST_PANELS} from 0 to {cos.shape[1] - 1}")
    figure, panels = _panels(len(chosen), 2.6)
    lengths = analysis.wavelengths(rotary)
    for ax, pair in zip(panels, chosen):
        title = f"pair {pair}: a turn in {lengths[pair]:.{1 if lengths[pair] < 100 else 0}f}"
        _clock(ax, title, rotary.amplitude, np.stack([cos[:, pair], sin[:, pair]], axis=1))
    hands = [_pyplot().Line2D([], [], color=color, linewidth=2) for color in _COLORS[: len(at)]]
    figure.suptitle(f"Where positions turn pairs to: {_label(rotary.spec)}")
    figure.legend(
        hands,
        [f"position {position}" for position in at],
        loc="outside lower center",
        ncols=min(len(at), 5),
        frameon=False,
        fontsize="small",
    )
    return panels


def _panels(count: int, size: float) -> tuple[Any, np.ndarray]:
    """A figure of so many panels, three to a row at most."""
    columns = 2 if count == 4 else min(count, 3)
    rows = -(-count // columns)
    figure, grid = _pyplot().subplots(
        rows, columns, figsize=(max(columns * size + 0.8, 5), rows * size + 0.6), layout="constrained", squeeze=False
    )
    for ax in grid.reshape(-1)[count:]:
        ax.remove()
    return figure, grid.reshape(-1)[:count]


def scaling(
    rotary: Any, trained_length: int = 4096, wanted_length: int | None = None, scalings: Sequence[Scaling] = (), *, ax: Any = None
) -> Any:
    """What each scaling makes of the frequency of each pair; wanted_length is 8 times trained_length unless given.

    >>> import phasor
    >>> phasor.plot.scaling(phasor.Rotary(head_dim=64)).lines[0].get_label()
    'as trained: seen up to 4096'
    """
    wanted = 8 * trained_length if wanted_length is None else wanted_length
    planned = [one for one in analysis.plan_scalings(rotary, trained_length, wanted, scalings) if not one.error]
    ax = _axes(ax)
    drawn: list[list[float]] = []
    for i, one in enumerate(planned):
        ratios = [pair.ratio for pair in one.pairs]
        seen = "all seen" if one.unseen_from is None else f"seen up to {one.unseen_from}"
        # What is the same as another is dashed, so that both are seen. The last of the colours is for what is as trained.
        style = "--" if ratios in drawn or i >= len(_COLORS) else "-"
        ax.plot(range(len(ratios)), ratios, label=f"{one.name}: {seen}", color=_COLORS[(i - 1) % len(_COLORS)], linestyle=style)
        drawn.append(ratios)
    ax.set_ylim(0, 1.05)
    ax.margins(x=0)
    _curves(ax, f"Scalings from {trained_length} to {wanted} positions", "pair", "frequency / frequency as trained")
    return ax


def error(rotary: Any, positions: Any = _ERROR_POSITIONS, *, ax: Any = None) -> Any:
    """How far cos and sin are off by position, on log axes, a curve for each numerics.

    >>> import phasor
    >>> [line.get_label() for line in phasor.plot.error(phasor.Rotary(head_dim=8), [10, 1000]).lines]
    ['exact (this library)', 'hf (Hugging Face)', 'vllm', 'ggml (llama.cpp)']
    """
    rotary = analysis.rotary_of(rotary)
    found = analysis.profile_errors(rotary, positions)
    ax = _axes(ax)
    at = [one.position for one in found]
    names = {"exact": "exact (this library)", "hf": "hf (Hugging Face)", "vllm": "vllm", "ggml": "ggml (llama.cpp)"}
    for i, (field, name) in enumerate(names.items()):
        values = [getattr(one, field) for one in found]
        # Where vllm is what hf is, points alone let both be seen.
        ax.plot(
            at,
            [np.nan if value is None else value for value in values],
            label=name,
            color=_COLORS[i],
            marker="o",
            markersize=3 if field != "vllm" else 5,
            linestyle="none" if field == "vllm" else "-",
            fillstyle="none" if field == "vllm" else "full",
        )
    ax.set(xscale="log", yscale="log")
    _curves(ax, f"Error of float32 tables by numerics profile: {_label(rotary.spec)}", "position", "largest error of a cosine or sine")
    return ax


def bias(spec: BiasSpec = Alibi(heads=8), length: int = 48, heads: Sequence[int] = range(6)) -> np.ndarray:
    """What a scheme adds to the score of each query and key, a heat map for each of some heads, in one scale.

    Of a scheme whose table is empty, the rows that are read.

    >>> import phasor
    >>> [ax.get_title() for ax in phasor.plot.bias(phasor.Alibi(heads=2), 8, heads=[0, 1])]
    ['head 0', 'head 1']
    """
    ready, label = Bias(spec), "bias"
    at = np.arange(length)
    chosen = [int(head) for head in heads if heads != range(6) or head < ready.heads]
    if not 1 <= len(chosen) <= _MOST_PANELS or not all(0 <= head < ready.heads for head in chosen):
        raise ValueError(f"bias: heads are {chosen}, wanted 1 to {_MOST_PANELS} from 0 to {ready.heads - 1}")
    values = ready(at, at, np.float64)
    if ready.rows and not getattr(spec, "table", ()):
        label = "row"
        values = np.broadcast_to(ready.row(at[:, None] - at[None, :]), values.shape)
    figure, panels = _panels(len(chosen), 2.8)
    image = None
    for ax, head in zip(panels, chosen):
        image = _cells(ax, values[head], (at, at), vmin=values.min(), vmax=values.max())
        ax.set(title=f"head {head}", xlabel="key position", ylabel="query position")
    figure.colorbar(image, ax=list(panels), label=label, aspect=30, pad=0.02)
    figure.suptitle(f"{'Table rows' if label == 'row' else 'Bias'} of {type(spec).__name__}")
    return panels
