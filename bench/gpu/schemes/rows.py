# SPDX-License-Identifier: Apache-2.0
"""Rows of the table of attention, their figures beside their targets, and how they are printed. Needs no package: table.py reads what was written."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from typing import Any

PEERS = ("cuDNN", "flash", "FlexAttention", "dense bias")


@dataclass(frozen=True)
class Figure:
    words: str
    value: float
    limit: float | None = None
    at_least: bool = False
    unit: str = ""

    @property
    def met(self) -> bool | None:
        return None if self.limit is None else (self.value >= self.limit if self.at_least else self.value <= self.limit)

    def __str__(self) -> str:
        text = f"{self.words} {self.value:.3f}{self.unit}"
        if self.limit is None:
            return text
        return f"{text} ({'>=' if self.at_least else '<='} {self.limit:g}: {'met' if self.met else 'MISSED'})"


@dataclass
class Row:
    group: str
    name: str
    ms: float = math.nan
    figures: list[Figure] = field(default_factory=list)
    peers: dict[str, float | str] = field(default_factory=dict)  # their time over ours, or why there is none
    error: str = ""  # why there is no time
    off: float = math.nan  # relative error
    kernel: str = ""
    tflops: float = math.nan

    def as_json(self) -> dict[str, Any]:
        """Without numbers that there are not."""
        fields = asdict(self) | {"figures": [asdict(figure) | {"met": figure.met} for figure in self.figures]}
        return {name: x for name, x in fields.items() if not (isinstance(x, float) and not math.isfinite(x))}


# ---- Printed ----


def peer_cell(row: Row, peer: str) -> str:
    value = row.peers.get(peer, "")
    return f"{value:.2f}" if isinstance(value, float) else ("-" if not value or value.startswith("not here") else "ERROR")


def line_of(row: Row) -> str:
    ms = "" if math.isnan(row.ms) else f"{row.ms:.3f}"
    figures = "; ".join(str(figure) for figure in row.figures)
    words = "; ".join(x for x in (figures, f"ERROR: {row.error}" if row.error else "") if x)
    return f"| {row.group}: {row.name} | {ms} | {words} | " + " | ".join(peer_cell(row, peer) for peer in PEERS) + " |"


def heading() -> list[str]:
    return ["| | ms | figures (target) | " + " | ".join(PEERS) + " |", "|---|---|---|" + "---|" * len(PEERS)]


def notes_of(rows: list[Row]) -> list[str]:
    """Why a peer has no figure, each reason once."""
    said: dict[str, None] = {}
    for row in rows:
        for peer, value in row.peers.items():
            if isinstance(value, str) and not value.startswith("not here"):
                said[f"{row.group}: {row.name}: {peer}: {value}"] = None
    return list(said)


def row_from(json: dict[str, Any]) -> Row:
    figures = [Figure(**{name: x for name, x in figure.items() if name != "met"}) for figure in json["figures"]]
    return Row(**(json | {"figures": figures}))
