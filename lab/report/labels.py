# SPDX-License-Identifier: Apache-2.0
"""What stands beside what: labels by family, in the order of tables and panels."""

from __future__ import annotations

FAMILIES: dict[str, tuple[str, ...]] = {
    "none or added": ("none", "sinusoidal", "learned", "hierarchical"),
    "rotated": ("rotary", "rotary 500000", "rotary quarter", "rotary 3 of 4", "rotary adjacent", "rotary bf16 tables", "xpos"),
    "bias by distance": ("alibi", "t5", "kerple", "sandwich", "fire"),
    "tables that meet q or k": ("shaw", "shaw values", "transformer-xl", "deberta", "cope"),
}
TRAINED = tuple(label for family in FAMILIES.values() for label in family)
NO_TRAINING = ("hierarchical",)  # the learned table, extended at evaluation
SCALINGS = ("linear", "ntk", "ntk dynamic", "ntk fixed", "ntk mixed", "yarn", "llama3", "longrope")
MAPS = ("rerope", "leaky rerope", "self-extend", "dual chunk")
CHANGED = tuple(f"rotary, {how}" for how in (*SCALINGS, *MAPS))
PROFILES = ("rotary, exact", "rotary, hf float32 angles", "rotary, hf bf16 tables")
TASKS = ("passkey", "needles", "tracing", "copying", "counting")
GUESSED = 0.14  # right answers over all tasks of one who knows what could be asked, not which one was: the mean of lab.data.tasks.CHANCE
CONTROLS = ("rotary adjacent", "rotary bf16 tables")  # rotary once more, in another order or rounding: no encodings of their own, so never ranked
RUNS = tuple(label for label in TRAINED if label not in NO_TRAINING)
RANKED = tuple(label for label in TRAINED if label not in CONTROLS)


def in_order(labels: set[str], order: tuple[str, ...]) -> list[str]:
    """Those of an order that are there, then those that nobody has put into one."""
    return [label for label in order if label in labels]


def times(multiple: float) -> str:
    return f"{multiple:g}x"
