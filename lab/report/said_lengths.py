# SPDX-License-Identifier: Apache-2.0
"""The page's own words about what lengths give, as said.py has the others: read on the last tokens of all (losses.py), each with what gives its numbers."""

from __future__ import annotations

from lab import presets
from lab.report import ends
from lab.report.labels import CONTROLS, FAMILIES, RUNS
from lab.report.losses import FIRST_FULL, SHARE, last_loss, tokens_told
from lab.report.papers import HOLDS, SAME, verdict
from lab.report.prose import Reader, Said, World, said
from lab.report.readings import NTK, ended, ends_of, gained, gained_beyond, loss, mean, setting, value_there
from lab.report.readings import ROTARY as TRAINED_ROTARY

LEVEL = ("t5", "alibi", "deberta", "cope")
SLOW = ("kerple", "sandwich")
LOST = ("shaw", "shaw values", "fire")
READS_ON = ("xpos", *FAMILIES["bias by distance"], *FAMILIES["tables that meet q or k"])  # 1.5 times the length, without failing
NEAR_MAPS = tuple(f"rotary, {how}" for how in ("rerope", "leaky rerope", "self-extend"))
YARN, LONGROPE, LLAMA = (f"rotary, {how}" for how in ("yarn", "longrope", "llama3"))


def told(folder: str = "small", *multiples: float) -> Reader:
    return lambda world: tokens_told(world.every[folder], *(multiples or (1,)))


def shorter(world: World) -> list[float]:
    """What the last 512 tokens of 1.5 times the length have less than those of the trained one."""
    return [mean(last_loss(world.small, label, 1)) - mean(last_loss(world.small, label, 1.5)) for label in READS_ON]


def beside_own(which: tuple[str, ...], multiple: float) -> Reader:
    """What changed models have more at a length than rotary at its own."""
    return lambda world: [mean_ended(world, label, multiple) - mean_ended(world, "rotary", 1) for label in which]


def mean_ended(world: World, label: str, multiple: float, folder: str = "small") -> float:
    return float(ended(label, multiple, folder)(world))


def clear(kind: str, labels: tuple[str, ...], folder: str = "small") -> Reader:
    """Whether the gain of each is of a kind."""
    return lambda world: all((value := ends.gained(world.every[folder], label)) is not None and verdict(value) == kind for label in labels)


def alone_gain(world: World) -> bool:
    """Whether these gain clearly and nobody else does; and go on beyond."""
    every = {label: value for label in RUNS if label not in CONTROLS and (value := ends.gained(world.small, label)) is not None}
    beyond = [ends.gained_beyond(world.small, label) for label in SLOW]
    return {label for label, value in every.items() if verdict(value) == HOLDS} == set(SLOW) and all(value is not None and verdict(value) == HOLDS for value in beyond)


def read_twice(world: World) -> bool:
    """Whether these read twice the length as well as their own, or better."""
    return all(mean_ended(world, label, 2) <= mean_ended(world, label, 1) for label in LOST)


SAID_LENGTHS: tuple[Said, ...] = (
    said(
        "In a window of {} the first of the last {} tokens have nothing before them, so whoever reads 1.5x at all is better there by {} to {} on these tokens. The last {} have at least {} before them at every length from the trained one on:",
        *(lambda world: world.small.length, lambda world: presets.LAST, *(lambda world, which=which: f"{which(shorter(world)):.2f}" for which in (min, max))),
        *(told(), lambda world: world.small.length - tokens_told(world.small, 1)),
        holds=lambda world: presets.LAST == world.small.length,
    ),
    said(
        "on them ALiBi goes from {} to {} at 8x (on the last {} from {} to {}), and KERPLE from {} to {} (from {} to {}).",
        *(ended("alibi", 1), ended("alibi", 8), lambda world: presets.LAST, loss("alibi", 1), loss("alibi", 8)),
        *(ended("kerple", 1), ended("kerple", 8), loss("kerple", 1), loss("kerple", 8)),
    ),
    said(
        "on the last {} tokens Sandwich is better at 8x than at the trained length by {} and KERPLE by {}; on the last {} both are still better at {} times the length than at twice it, by {} and {}.",
        *(told(), gained("sandwich"), gained("kerple"), lambda world: presets.LAST, lambda world: max(world.small.seen("measured", "multiple"))),
        *(gained_beyond("sandwich"), gained_beyond("kerple")),
        holds=lambda world: alone_gain(world) and max(ends.lengths(world.small)) == 8 and FIRST_FULL == 2,
    ),
    said(
        "T5, ALiBi, DeBERTa and CoPE are at 8x about where they were ({} better to {} worse, all within their intervals).",
        *(lambda world, sign=sign: f"{max(sign * value.mean for label in LEVEL if (value := ends.gained(world.small, label)) is not None):.3f}" for sign in (1, -1)),
        holds=clear(SAME, LEVEL),
    ),
    said(
        "ALiBi stays level ({} at 2x, {} at 64x on the last {}), T5 does not ({}, {} at 16x and {} at 64x), and CoPE does not either ({} to {}).",
        *(loss("alibi", 2), loss("alibi", 64), lambda world: presets.LAST, loss("t5", 2), loss("t5", 16), loss("t5", 64), loss("cope", 2), loss("cope", 64)),
    ),
    said(
        "read twice the length as well as their own or better and lose {} to {} by 8x; xPos loses {} to {} and Transformer-XL {} to {}, by the seed.",
        *(lambda world, which=which: f"{which(-value.mean for label in LOST if (value := ends.gained(world.small, label)) is not None):.3f}" for which in (min, max)),
        *(lambda world, label=label, end=end: f"{-(value_there(ends.gained(world.small, label)).ends or (0.0, 0.0))[end]:.2f}" for label in ("xpos", "transformer-xl") for end in (1, 0)),
        holds=read_twice,
    ),
    said(
        "at twice the length, whatever its base, width or pairing (on the last {} tokens {} to {}, where the trained length has {} to {})",
        *(told(), *(ends_of(TRAINED_ROTARY, multiple, which) for multiple in (2, 1) for which in (min, max))),
    ),
    said(
        "lose little to eight times the length ({} to {}, where rotary has {} at its own) and more beyond (on the last {} {} to {} at 2x and {} to {} at 64x).",
        *(ends_of(NEAR_MAPS, 8, min), ends_of(NEAR_MAPS, 8, max), ended("rotary", 1), lambda world: presets.LAST),
        *(lambda world, one=one, which=which: f"{which(mean(last_loss(world.small, label, one)) for label in NEAR_MAPS):.3f}" for one in (2, 64) for which in (min, max)),
    ),
    said(
        "YaRN and LongRoPE's searched factors have at four times what rotary has at its own ({} and {}), Llama 3's rule nearly ({}); at 8x they have lost {} to {}.",
        *(ended(YARN, 4), ended(LONGROPE, 4), ended(LLAMA, 4)),
        *(lambda world, which=which: f"{which(beside_own((YARN, LONGROPE, LLAMA), 8)(world)):.2f}" for which in (min, max)),
        holds=lambda world: max(map(abs, beside_own((YARN, LONGROPE), 4)(world))) < 0.005 and 0 < beside_own((LLAMA,), 4)(world)[0] < 0.02,
    ),
    said(
        "({} to {} at twice the length); dynamic NTK, which is set for three times there, does not ({}). Linear interpolation fails at twice the length ({}), and with a short fine-tune, too ({} at 4x).",
        *(ends_of(NTK, 2, min), ends_of(NTK, 2, max), ended("rotary, ntk dynamic", 2), ended("rotary, linear", 2), ended("rotary, linear", 4, tuned=True)),
        holds=lambda world: min(beside_own(NTK, 2)(world)) > 0.2 and beside_own(("rotary, ntk dynamic",), 2)(world)[0] < 0.02,
    ),
    # Method.
    said(
        "in a window of {} they are the whole window, whose first token has nothing before it and whose middle {}",
        *(lambda world: world.small.length, lambda world: world.small.length // 2),
        holds=lambda world: presets.LAST == world.small.length,
    ),
    said("- **The last {} tokens**, an eighth of the trained length ({} of windows of {})", told(), told("small1024"), lambda world: world.small1024.length, holds=lambda world: SHARE == 8),
    said(
        "Files keep the loss by position in {} parts of a document, which tell so few tokens up to 8x; a comparison with 1.5x is of the last {}, which both tell.",
        lambda world: len(world.small.rows("measured", "rotary", multiple=8)[0][1]["by_position"]),
        told("small", 1, 1.5),
        holds=lambda world: max(ends.lengths(world.small)) == max(ends.lengths(world.small1024)) == 8,
    ),
    said("### What a longer text gives: the last {} tokens", told()),
    said("The same on the last {} tokens; up to 1x a scaling is no scaling", told()),
    said('"end" is the last {} tokens ({} where 1.5x is compared)', told(), told("small", 1, 1.5)),
    said("is told on {} tokens of each document, and up to 8x alone", told(), holds=lambda world: max(ends.lengths(world.small)) == 8),
    # A greater model, and longer windows.
    said(
        "on the last eighth of the trained length {} from 1x to 8x with the greater model and {} in windows of {}; on the last {} tokens it then stays level, to {} times the length with the greater model ({}), to {} times in windows of {} ({}).",
        *(gained("kerple", "medium"), gained("kerple", "small1024"), lambda world: world.small1024.length, lambda world: presets.LAST),
        *(lambda world: max(world.medium.seen("measured", "multiple")), loss("kerple", 64, "medium"), lambda world: max(world.small1024.seen("measured", "multiple"))),
        *(lambda world: world.small1024.length, loss("kerple", 32, "small1024")),
    ),
    said(
        "There T5 is best at two and four times the length ({} at both on the last {} tokens, {} at its own) and has lost that at eight ({})",
        *(ended("t5", 2, "small1024"), told("small1024"), ended("t5", 1, "small1024"), ended("t5", 8, "small1024")),
        holds=lambda world: ended("t5", 2, "small1024")(world) == ended("t5", 4, "small1024")(world) and max(abs(mean_ended(world, "alibi", one, "small1024") - mean_ended(world, "alibi", 1, "small1024")) for one in (2, 4, 8)) < 0.005,
    ),
    # Changed at evaluation, and what differs by chance of a run.
    said(
        "Leaky ReRoPE and Self-Extend are {} apart on average at most",
        lambda world: f"{max(abs(mean(last_loss(world.small, NEAR_MAPS[1], one)) - mean(last_loss(world.small, NEAR_MAPS[2], one))) for one in world.small.seen('measured', 'multiple', NEAR_MAPS)):.3f}",
    ),
    said("after {} steps linear interpolation is still broken", setting(lambda one: one["changes"]["tune_steps"]), holds=lambda world: mean_ended(world, "rotary", 1) + 0.5 < float(ended("rotary, linear", 4, tuned=True)(world))),
)
