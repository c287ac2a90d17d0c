# SPDX-License-Identifier: Apache-2.0
"""The page's own words that have numbers in them, each with what gives these; and what the words say besides, as a question to the results."""

from __future__ import annotations

from collections.abc import Callable

from lab import presets
from lab.data import mixture, overlap, tasks
from lab.report import papers
from lab.report.labels import CHANGED, CONTROLS, RUNS, SCALINGS, TASKS
from lab.report.prose import Said, World, said
from lab.report.readings import (
    LEARNED,
    all_of,
    answers,
    behind,
    bf16_costs,
    chance,
    difference,
    exact_passkeys,
    examples,
    fails_after_a_fine_tune,
    greatest,
    interval,
    leads,
    learned,
    least_or_most,
    less,
    loss,
    mean,
    of_seed,
    only_seed,
    ordered,
    other_parameters,
    parameters,
    passkeys_lost,
    percent,
    rotary_passkeys,
    rounding,
    setting,
    share,
    shares_of,
    store,
    who_learned,
    worst_at_and_beyond,
)
from lab.report.said_lengths import SAID_LENGTHS
from lab.report.said_prices import SAID_PRICES
from lab.report.statistics import T95

SEED_OF_DEBERTA = 2  # who learned
SEED_OF_COPE = 1
KERPLE_AT_64 = [lambda world, place=place: sorted(share(world.small, "kerple", "passkey", 64).values())[place] for place in (0, 1, 2)]
OTHER_LENGTHS: Callable[[World], list[float]] = lambda world: [-one for multiple, one in bf16_costs(world).items() if multiple != 1]  # noqa: E731

SAID: tuple[Said, ...] = (
    *SAID_LENGTHS,
    *SAID_PRICES,
    # The beginning.
    said("each of {} encodings for causal text at one length, and with two controls", lambda world: len(RUNS) - len(CONTROLS), holds=lambda world: len(CONTROLS) == 2),
    said("({} scalings and maps of rotary, and a learned table made longer)", lambda world: len(CHANGED)),
    # What we read.
    said(
        "At {} times the length T5 and Sandwich find most passkeys ({} % and {} %), KERPLE all of them with one seed and {} % and {} % with the others (four examples a seed and distance). ALiBi finds none so far away",
        lambda world: 64,
        *(percent(lambda world: mean(share(world.small, "t5", "passkey", 64))), percent(lambda world: mean(share(world.small, "sandwich", "passkey", 64)))),
        *(percent(KERPLE_AT_64[1]), percent(KERPLE_AT_64[0])),
        holds=lambda world: KERPLE_AT_64[2](world) == 1 and examples(64)(world) == {4} and not any(share(world.small, "alibi", "passkey", 64).values()),
    ),
    said("from four times its length on it is worst of all on average", holds=worst_at_and_beyond),
    said(
        "at the trained length ({}, {} below the next) and at four times it ({})",
        *(interval("deberta", 1), least_or_most(lambda world: [difference(world.small, label, "deberta", 1).mean for label in RUNS if label != "deberta"], min, ".3f"), interval("deberta", 4)),
        holds=lambda world: all(difference(world.small, label, "deberta", one).mean > 0 for one in (1, 4) for label in RUNS if label not in ("deberta", *(("learned",) if one > 1 else ()))),
    ),
    said(
        "It also has {} parameters, Transformer-XL {}, all others {} to {};",
        *(parameters("deberta"), parameters("transformer-xl"), *(lambda world, which=which: f"{which(other_parameters(world)) / 1e6:.1f}M" for which in (min, max))),
    ),
    said(
        "CoPE and Transformer-XL are worse with every seed, by {} to {} and by {} to {};",
        *(behind(label, "deberta", 4, end) for label in ("cope", "transformer-xl") for end in (0, 1)),
    ),
    said(
        "DeBERTa learned passkeys, copying and needles with one seed of three, which then finds {} %, {} % and {} % of them at {} times the length, too",
        *(of_seed("deberta", task, 16, SEED_OF_DEBERTA) for task in ("passkey", "copying", "needles")),
        lambda world: 16,
        holds=only_seed("deberta", SEED_OF_DEBERTA, "passkey", "needles", "copying"),
    ),
    said("CoPE learned copying alone, with one seed, and still copies {} % at {} times the length", of_seed("cope", "copying", 64, SEED_OF_COPE), lambda world: 64, holds=only_seed("cope", SEED_OF_COPE, "copying")),
    said(
        "of the {} runs with some kind of rotary, controls among them, {} find nearly every passkey at the trained length and {} find none",
        *(lambda world: len(rotary_passkeys(world)), lambda world: sum(one >= LEARNED for one in rotary_passkeys(world)), lambda world: sum(one < 0.01 for one in rotary_passkeys(world))),
    ),
    said("learned rows learned passkeys with every seed, needles and copying with two of three", holds=who_learned),
    said(
        "({} % at most at the trained length, where a guess among what was said gives {} %)",
        *(percent(lambda world: max(one for label in RUNS for one in share(world.small, label, "tracing", 1).values())), chance("tracing")),
    ),
    said("{} % is the most of any seed at any distance, where a guess gives {} %", percent(lambda world: max(shares_of(world, "counting"))), chance("counting")),
    said(
        "({} at most on average, {} with a seed)",
        lambda world: f"{max(map(abs, rounding(world.small, lambda value: [value.mean]))):.4f}",
        lambda world: f"{max(map(abs, rounding(world.small, lambda value: value.ends or ()))):.4f}",
    ),
    said(
        "but for one of {} at {} times the length ({} examples a seed; only two seeds learned the task, and at {} times the length nobody finds any)",
        *(lambda world: presets.NUMERICS_EXAMPLES * len(world.small.of("rotary")), lambda world: 16, lambda world: presets.NUMERICS_EXAMPLES, lambda world: 64),
        holds=lambda world: {length: sum(map(abs, lost)) for length, lost in passkeys_lost(world.small).items() if any(lost)} == {16 * 512: 1}
        and learned(world.small, "rotary", "passkey") == 2
        and not any(exact_passkeys(world.small, 64).values()),
    ),
    said(
        "costs {} at the trained length, and is a little lower at every other one, by {} to {}, at 16x by as much as its interval ({})",
        *(less("rotary bf16 tables", "rotary", 1), least_or_most(OTHER_LENGTHS, min, ".3f"), least_or_most(OTHER_LENGTHS, max, ".3f"), less("rotary bf16 tables", "rotary", 16)),
        holds=lambda world: min(OTHER_LENGTHS(world)) > 0,
    ),
    # Method.
    said("Byte-pair tokens ({})", store("text_vocabulary")),
    said("more than a tenth of their runs of {} tokens", lambda world: overlap.SHINGLE),
    said("The last {} tokens", lambda world: presets.LAST),
    said("read at half to {} times that length", greatest("small"), holds=lambda world: min(world.small.seen("measured", "multiple")) == 0.5),
    said("mixes {} % text, {} % of a generated language and {} % tasks", *(lambda world, one=one: f"{100 * one:.0f}" for one in (mixture.TEXT, mixture.LANGUAGE, 1 - mixture.TEXT - mixture.LANGUAGE))),
    said("**Intervals** are {} % by Student's t over seeds", lambda world: 95, holds=lambda world: T95[0] == 12.706),
    said(
        "both saw the same text, half of what the runs here see, in steps of {} and of {} tokens. After the few large steps nobody retrieved anything, after the many small ones ALiBi did ({} % of passkeys in {} tokens)",
        *(setting(lambda one: one["rows"] * one["shape"]["length"], folder) for folder in ("first", "second")),
        percent(lambda world: mean(share(world.second, "alibi", "passkey", 1))),
        lambda world: world.second.length,
        holds=lambda world: all(2 * world.every[folder].runs[0]["trained"]["tokens"] == world.small.runs[0]["trained"]["tokens"] for folder in ("first", "second"))
        and not any(share(world.first, label, "passkey", 1).get(0) for label in RUNS),
    ),
    said("finds a quarter of the needles, a third of the traced values, a ninth of the counts", holds=lambda world: [tasks.CHANCE[one] for one in ("needles", "tracing", "counting")] == [1 / 4, 1 / 3, 1 / 9]),
    said("five digits", holds=lambda world: tasks.PASSKEY_DIGITS == 5),
    said("sixteen letters", holds=lambda world: tasks.COPIED == 16),
    said("how many of {} to {} marks", lambda world: 1, lambda world: tasks.MARKS),
    # A greater model, and longer windows.
    said(
        "({} at 4x instead of {}, where the trained length has {}) and with windows twice as long ({} at 2x)",
        *(loss("rotary", 4, "medium"), loss("rotary", 4), loss("rotary", 1, "medium"), loss("rotary", 2, "small1024")),
        holds=lambda world: world.small1024.length == 2 * world.small.length and round(world.medium.runs[0]["parameters"] / world.small.of("rotary")[0]["parameters"]) == 4,
    ),
    said(
        "Maps are first with the greater model, ReRoPE before the others at every length; behind them Llama 3 is before LongRoPE and YaRN at 4x, and behind both from 16x on.",
        holds=all_of(
            *(leads("medium", one, "rerope") for one in (4, 16, 64)),
            *(ordered("medium", one, "dual chunk", how) for one in (4, 16, 64) for how in SCALINGS),
            *(ordered("medium", 4, "llama3", how) for how in ("longrope", "yarn")),
            *(ordered("medium", one, how, "llama3") for one in (16, 64) for how in ("longrope", "yarn")),
        ),
    ),
    said(
        "In windows of {} LongRoPE and YaRN lead at twice the length ({} and {}; ReRoPE {}) and are before Self-Extend at 4x, YaRN at 8x still ({} against {}); ReRoPE is first from 4x on.",
        lambda world: world.small1024.length,
        *(loss(f"rotary, {how}", 2, "small1024") for how in ("longrope", "yarn", "rerope")),
        *(loss(f"rotary, {how}", 8, "small1024") for how in ("yarn", "self-extend")),
        holds=all_of(
            leads("small1024", 2, "longrope"),
            ordered("small1024", 2, "longrope", "yarn", "rerope"),
            ordered("small1024", 4, "longrope", "yarn", "self-extend"),
            *(leads("small1024", one, "rerope") for one in (4, 8, 16, 32)),
        ),
    ),
    said(
        "four times the length better than KERPLE does ({} against {}), and loses to it from 16x on ({} against {})",
        *(read for one in (4, 16) for read in (loss("rotary, rerope", one, "medium"), loss("kerple", one, "medium"))),
        holds=lambda world: mean(papers.last_loss(world.medium, "rotary, rerope", 64)) > mean(papers.last_loss(world.medium, "kerple", 64)),
    ),
    said(
        "T5 trained at {} finds as much at {} times its length as at its own** ({} and {} %; four examples a task and distance there)",
        *(lambda world: world.small1024.length, lambda world: 32, answers("t5", 32, "small1024"), answers("t5", 1, "small1024")),
    ),
    said("linear interpolation stays far behind, and at twice that length all of them fail", holds=fails_after_a_fine_tune),
    said(
        "{} more and {} less at most with the greater model, and not one passkey; {} more and {} less in windows of {}, where the one seed never learned passkeys",
        *(
            lambda world, folder=folder, sign=sign: f"{max(sign * one for one in rounding(world.every[folder], lambda value: [value.mean])):.4f}"
            for folder in ("medium", "small1024")
            for sign in (1, -1)
        ),
        lambda world: world.small1024.length,
        holds=lambda world: not any(any(lost) for lost in passkeys_lost(world.medium).values()) and learned(world.small1024, "rotary", "passkey") == 0,
    ),
    said("### {} million parameters", lambda world: f"{world.medium.runs[0]['parameters'] / 1e6:.0f}"),
    said("### Windows of {} tokens", lambda world: world.small1024.length),
    said("from position {}, and from position one million on", lambda world: world.small.seen("numerics", "shift")[0], holds=lambda world: world.small.seen("numerics", "shift") == [0, 10**6]),
    # The price.
    # Papers.
    said("is greater than {} and than its interval", lambda world: papers.CLEAR),
    said("of the loss on the last {} tokens in nats", lambda world: presets.LAST),
    # Limits.
    said("all read the same {} documents", lambda world: next(iter({row["documents"] for label in RUNS for _, row in world.small.rows("measured", label)})), holds=lambda world: len({row["documents"] for label in RUNS for _, row in world.small.rows("measured", label)}) == 1),
    said(
        "by more than its interval at 16x and 32x ({} and {})",
        *(less("rotary adjacent", "rotary", one) for one in (16, 32)),
        holds=lambda world: [one for one in (1, 2, 4, 8, 16, 32, 64) if abs((found := difference(world.small, "rotary adjacent", "rotary", one)).mean) > (found.half or 0.0)] == [16, 32],
    ),
    said("and ten times that for biases that learn", holds=lambda world: presets.BIAS_RATE == 10),
    said("{}M tokens for {}M parameters or more", lambda world: f"{world.small.runs[0]['trained']['tokens'] / 1e6:.0f}", lambda world: f"{min(run['parameters'] for run in world.small.runs) / 1e6:.0f}"),
    said("of which seed {} learned no task", lambda world: next(seed for seed in (0, 1, 2) if not any(share(world.small, "rotary", task, 1)[seed] >= 0.5 for task in TASKS))),
    said("Tasks at {} times the length have four examples a seed and distance, so that {} points are one example", lambda world: 64, lambda world: round(100 / min(examples(64)(world))), holds=lambda world: examples(64)(world) == {4}),
)
