# SPDX-License-Identifier: Apache-2.0
"""The page's own words about prices and limits, as said.py has the others, each with what gives its numbers."""

from __future__ import annotations

from lab import presets
from lab.report.labels import FAMILIES, RUNS
from lab.report.prose import Reader, Said, World, said
from lab.report.readings import decoding_share, learned, mean_step_ms, most_keys, slow_decoders, training_share

TABLES = FAMILIES["tables that meet q or k"]
FEW, MORE = 512, 8192  # keys, as prices.ON_GPU has them
FLAT = ("alibi", "t5", "kerple")  # decode alike at any number of keys


def trains(label: str) -> Reader:
    return lambda world: f"{training_share(world, label):.2f}"


def decodes(label: str, keys: int | None = None) -> Reader:
    return lambda world: f"{decoding_share(world, label, keys):.2f}"


def span(labels: tuple[str, ...], which: str, *keys: int | None) -> Reader:
    """The least or the greatest share of rotary's decoding of all these labels at all these numbers of keys."""
    pick = {"least": min, "most": max}[which]
    return lambda world: f"{pick(decoding_share(world, label, one) for label in labels for one in (keys or world.gpu['settings']['keys'])):.2f}"


def more_a_layer(label: str, keys: int | None) -> Reader:
    """Milliseconds of a decoding step over rotary's, for each layer."""
    return lambda world: (mean_step_ms(world, label, keys) - mean_step_ms(world, "rotary", keys)) / world.gpu["shape"]["layers"]


def alone_slower(world: World) -> bool:
    """Whether Shaw's keys alone are slower than with values at few keys and faster at most; by as much a layer at few as at most."""
    few, most = (more_a_layer("shaw", one)(world) for one in (FEW, None))
    return decoding_share(world, "shaw", FEW) < decoding_share(world, "shaw values", FEW) and decoding_share(world, "shaw") > decoding_share(world, "shaw values") and abs(few - most) < 0.005


def seeds_that_answer(world: World) -> int:
    return learned(world.small, "rotary", "passkey")


def labels_of(folder: str) -> Reader:
    return lambda world: len({run["encoding"] for run in world.every[folder].runs})


def caps(label: str, seed: int) -> Reader:
    """Seconds that a label had at a length, in the run of a seed."""
    return lambda world: f"{next(run for run in world.small.of(label) if run['seed'] == seed)['settings']['caps']['measuring']:g}"


def fire_alone(world: World) -> bool:
    lanes = {run["seed"]: run["lanes"] for run in world.small.of("fire")}
    return lanes == {0: 3, 1: 3, 2: 1} and set(world.small.numbers("measured", "fire", "last", multiple=16)) == {0, 1}


SAID_PRICES: tuple[Said, ...] = (
    said("FIRE at 16x has the two seeds that ran three at once (a cap of {} s), and not the one that ran alone ({} s)", caps("fire", 0), caps("fire", 2), holds=fire_alone),
    said(
        "one token for each of {} sequences, against caches of {}, {} and {} keys",
        lambda world: world.gpu["settings"]["decode_rows"],
        *(lambda world, place=place: world.gpu["settings"]["keys"][place] for place in (0, 1, 2)),
    ),
    said(
        "biases by distance have {} (FIRE), {} (Sandwich), {} (KERPLE), {} (T5) and {} (ALiBi) of it; xPos, which scales queries and keys outside of the kernels, {}. Tables that meet queries or keys have {} to {}:",
        *(trains(label) for label in ("fire", "sandwich", "kerple", "t5", "alibi", "xpos")),
        *(lambda world, pick=pick: f"{pick(training_share(world, label) for label in TABLES):.2f}" for pick in (min, max)),
    ),
    said("Shaw's {}, Transformer-XL {}, DeBERTa {}, CoPE {}, Shaw's with values {}.", *(trains(label) for label in ("shaw", "transformer-xl", "deberta", "cope", "shaw values"))),
    said(
        "ALiBi, T5 and KERPLE have {} to {} of it at any number of keys, xPos {} to {}, Sandwich {} to {}.",
        *(span(labels, which) for labels in (FLAT, ("xpos",), ("sandwich",)) for which in ("least", "most")),
    ),
    said(
        "Tables have {} to {} at {} keys and {} to {} at {}.",
        *(span(TABLES, "least", FEW), span(TABLES, "most", FEW), lambda world: FEW, span(TABLES, "least", MORE), span(TABLES, "most", MORE), lambda world: MORE),
    ),
    said("At {} keys a decoding step of Transformer-XL, Shaw's values, DeBERTa and CoPE has a fifth of rotary's speed or less, and FIRE's, which was launched, a thirtieth", most_keys, holds=slow_decoders),
    said("at {} keys ({} against {}), because the two go different ways", lambda world: FEW, decodes("shaw", FEW), decodes("shaw values", FEW), holds=alone_slower),
    said(
        "That takes {} ms a layer more than rotary at {} keys, and the same at {}.",
        *(lambda world: f"{more_a_layer('shaw', FEW)(world):.2f}", lambda world: FEW, most_keys),
    ),
    said("little at {} keys, most at {} ({}, where keys alone have {})", lambda world: FEW, most_keys, decodes("shaw values"), decodes("shaw")),
    # Limits.
    said(
        "`medium` has {} of {} labels and `small1024` {} of {}, with one seed each.",
        *(labels_of("medium"), lambda world: len(RUNS), labels_of("small1024"), lambda world: len(RUNS)),
        holds=lambda world: all({run["seed"] for run in world.every[one].runs} == {0} for one in ("medium", "small1024")),
    ),
    said("FIRE's threshold stays at {} tokens", lambda world: world.small.length),
    said(
        "alone, {} steps each, at one factor. Changed models were asked to find things at one distance alone, and at 4x and 16x alone.",
        lambda world: presets.SMALL.changes.tune_steps,
        holds=lambda world: asked_where(world) == {(4, 1), (16, 1)} and tuned_labels(world) == {"rotary, linear", "rotary, yarn", "rotary, longrope"},
    ),
    said(
        "Numerics are of one base and one shift, and passkeys there of the two seeds that learned them, {} a length.",
        lambda world: presets.NUMERICS_EXAMPLES,
        holds=lambda world: seeds_that_answer(world) == 2 and len(world.small.seen("numerics", "shift")) == 2,
    ),
)


def asked_where(world: World) -> set[tuple[float, int]]:
    """Lengths, in times that of training, at which a changed model was asked, and how many distances there."""
    found: dict[int, set[int]] = {}
    for _, row in world.small.rows("retrieval", "rotary, yarn", task="passkey"):
        found.setdefault(row["length"], set()).add(row["distance"])
    return {(length / world.small.length, len(distances)) for length, distances in found.items()}


def tuned_labels(world: World) -> set[str]:
    return {label for label in world.small.labels("measured") if world.small.rows("measured", label, tuned=True)}
