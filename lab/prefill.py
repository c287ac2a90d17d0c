# SPDX-License-Identifier: Apache-2.0
"""The price of what is changed at evaluation: tokens per second of reading one long text (prefill), beside plain rotary. `python -m lab cost --changes`.

A step of training has no place for it, and a step of decoding little: ReRoPE, leaky ReRoPE and Self-Extend rotate and attend in two passes, dual chunk
attention in three, and that shows where many tokens are read at once. Scalings are the same rotation by other angles, so one of them stands for all.
Models are as they begin: what a token costs does not depend on what was learned. Rounds and shares are as in `lab.prices`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from lab import device as places
from lab import prices
from lab.encodings import Encoding
from lab.encodings.additive import hierarchical
from lab.encodings.changed import MAPS, rotary_changed
from lab.model import Model, begun
from lab.presets import Preset
from lab.progress import Progress

SCHEMA = 1
STANDARD = "yarn"  # of the scalings
BEFORE = 1  # readings that are not timed: tables are made and kernels loaded
LABELS = ("rotary", f"rotary, {STANDARD}", *(f"rotary, {how}" for how in MAPS), "xpos", "hierarchical", prices.AGAIN)
Row = dict[str, Any]


@dataclass(frozen=True)
class Settings:
    """Defaults are a CPU's."""

    rounds: int = 3
    multiple: int = 8  # times the trained length, for which maps and scalings are set
    times: int = 1  # that a text is read in a round


def settings_for(preset: Preset, device: torch.device, rounds: int | None = None) -> Settings:
    times, multiple = (4, 64) if device.type == "cuda" else (1, 2 if preset.name == "quick" else 8)
    return Settings(rounds or 3, multiple, times)


def made(label: str, preset: Preset, multiple: int) -> tuple[Model, Encoding | None]:
    """A model, and the encoding that it is read with: None is its own."""
    base = {"hierarchical": "learned", "xpos": "xpos"}.get(label, "rotary")
    model = begun(base, 0, preset.shape, prices.VOCABULARY)
    if label == "hierarchical":
        return model, hierarchical(model.encoding, preset.length(multiple))
    how = label.removeprefix("rotary, ")
    return model, None if how == label else rotary_changed(how, multiple, preset.shape)


@torch.no_grad()
def tokens_per_second(label: str, preset: Preset, settings: Settings, device: torch.device) -> float:
    """Of one text. Of its logits the last one alone is made, as an engine does."""
    model, encoding = made(label, preset, settings.multiple)
    model = model.to(device).eval()
    encoding = None if encoding is None else encoding.to(device)
    length = preset.length(settings.multiple)
    tokens = torch.randint(prices.VOCABULARY, (1, length), generator=torch.Generator().manual_seed(0)).to(device)

    def read() -> Tensor:
        with places.arithmetic(device, preset.dtype):
            return model.logits(model(tokens, encoding)[:, -1])

    return settings.times * length / _seconds(read, settings.times, device)


def _seconds(read: Callable[[], Tensor], times: int, device: torch.device) -> float:
    for _ in range(BEFORE):
        read()
    places.waited(device)
    begin = time.monotonic()
    for _ in range(times):
        read()
    places.waited(device)
    return time.monotonic() - begin


def named(only: Sequence[str]) -> list[str]:
    """Some of LABELS, each without "rotary, " and with dashes for its spaces; rotary is always beside them."""
    known = {label.removeprefix("rotary, ").replace(" ", "-"): label for label in LABELS}
    for name in only:
        if name not in known:
            raise ValueError(f"lab: {name!r} is no way of reading, wanted some of: {', '.join(known)}")
    return [label for name, label in known.items() if name in only or label in ("rotary", prices.AGAIN)]


def measured(preset: Preset, settings: Settings, device: torch.device, only: Sequence[str] | None = None, words: str | None = None) -> Row:
    """The whole of it, as it is kept."""
    head, preset = prices.head(f"prefill on a {prices.kind(device)}", preset, device, words)
    labels = LABELS if only is None else named(only)
    begin, progress = time.monotonic(), Progress(settings.rounds * len(labels))
    found: dict[str, list[float]] = {label: [] for label in labels}
    for number in range(settings.rounds):
        for done, label in enumerate(prices.order(labels, number)):
            progress.show(number * len(labels) + done, f"{label}, round {number + 1}")
            found[label].append(tokens_per_second(label, preset, settings, device))
    progress.show(progress.total, f"{len(labels)} ways of reading")
    progress.end()
    return head | {"schema": SCHEMA, "preset": preset.name, "shape": asdict(preset.shape), "settings": asdict(settings), "rounds": found, "seconds": time.monotonic() - begin}


def file_name(device: torch.device) -> str:
    return f"{prices.kind(device).lower()}_prefill.json"
