# SPDX-License-Identifier: Apache-2.0
"""Which loss of a result is compared, by seed. On the last 512 tokens everybody gains by a longer text: in a window of 512 the first of them have nothing
before them. So what a label gains or loses with the length is read on the very last tokens, an eighth of the trained length, all of which see seven
eighths of it even at the trained length."""

from __future__ import annotations

import math
from collections.abc import Sequence

from lab.report.results import Results, tokens_in_a_bin

Numbers = dict[int, float]
SHARE = 8  # of the trained length, the part that is read
FIRST_FULL = 2  # times the length: from here on each of the last 512 tokens has as much before it as training ever had


def last_loss(results: Results, label: str, multiple: float, tuned: bool = False) -> Numbers:
    """On the last 512 tokens. A scaling by 1 is no scaling."""
    found = results.numbers("measured", label, "last", multiple=multiple, tuned=tuned)
    return found or (last_loss(results, "rotary", multiple) if _is_rotary(label, multiple, tuned) else {})


def end_loss(results: Results, label: str, multiple: float, tuned: bool = False, beside: Sequence[float] = ()) -> Numbers:
    """On the last tokens that the bins of this length and of those beside it tell (`tokens_told`)."""
    tokens = tokens_told(results, multiple, *beside)
    rows = results.rows("measured", label, multiple=multiple, tuned=tuned) if tokens else []
    if not rows and tokens and _is_rotary(label, multiple, tuned):
        return end_loss(results, "rotary", multiple, beside=beside)
    found = {}
    for seed, row in rows:
        bins = row["by_position"][-(tokens // tokens_in_a_bin(row)) :]
        if None not in bins:
            found[seed] = math.fsum(bins) / len(bins)
    return found


def tokens_told(results: Results, *multiples: float) -> int:
    """How many of the last tokens all of these lengths tell by the bins of by_position: an eighth of the trained length, or the most below it. 0: none."""
    bins = [results.bins(one) for one in multiples]
    common = math.lcm(*set().union(*bins))
    return results.length // SHARE // common * common if all(bins) else 0


def _is_rotary(label: str, multiple: float, tuned: bool) -> bool:
    return label.startswith("rotary, ") and multiple <= 1 and not tuned
