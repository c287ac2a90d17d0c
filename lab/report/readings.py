# SPDX-License-Identifier: Apache-2.0
"""What gives a number in the page's own words (said.py): readers of the results, of prices and of settings."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

from lab import presets
from lab.data import tasks
from lab.report import ends, labels, losses, papers
from lab.report.labels import CHANGED, MAPS, RUNS, SCALINGS, TASKS
from lab.report.prose import Reader, World
from lab.report.results import Results
from lab.report.state import STORES
from lab.report.statistics import Value, value_of

LEARNED = 0.9  # of all examples: who answers so many has learned a task
ROTARY = [label for label in labels.FAMILIES["rotated"] if label != "xpos"]
BIASES = labels.FAMILIES["bias by distance"]
NTK = ("rotary, ntk", "rotary, ntk fixed", "rotary, ntk mixed")


def mean(numbers: papers.Numbers) -> float:
    return sum(numbers.values()) / len(numbers)


def loss(label: str, multiple: float, folder: str = "small", tuned: bool = False) -> Reader:
    return lambda world: f"{mean(papers.last_loss(world.every[folder], label, multiple, tuned)):.3f}"


def ended(label: str, multiple: float, folder: str = "small", tuned: bool = False) -> Reader:
    """On the last tokens of all."""
    return lambda world: f"{mean(losses.end_loss(world.every[folder], label, multiple, tuned)):.3f}"


def ends_of(which: Iterable[str], multiple: float, pick: Callable[[Iterable[float]], float]) -> Reader:
    """The least or the greatest of several there."""
    return lambda world: f"{pick(mean(losses.end_loss(world.small, label, multiple)) for label in which):.3f}"


def gained(label: str, folder: str = "small") -> Reader:
    """From the trained length on, as ends.py reads it."""
    return lambda world: value_there(ends.gained(world.every[folder], label)).written()


def gained_beyond(label: str) -> Reader:
    return lambda world: value_there(ends.gained_beyond(world.small, label)).written()


def value_there(value: Value | None) -> Value:
    assert value is not None
    return value


def interval(label: str, multiple: float) -> Reader:
    return lambda world: value_of(list(papers.last_loss(world.small, label, multiple).values())).written()


def less(one: str, other: str, multiple: float, sign: bool = True) -> Reader:
    """one - other on the last tokens, seed by seed."""
    return lambda world: difference(world.small, one, other, multiple).written(3, sign)


def difference(results: Results, one: str, other: str, multiple: float) -> Value:
    return value_there(results.difference(papers.last_loss(results, one, multiple), papers.last_loss(results, other, multiple)))


def least_or_most(read: Callable[[World], Iterable[float]], which: Callable[[Iterable[float]], float], form: str) -> Reader:
    return lambda world: format(which(read(world)), form)


def of_labels(which: Iterable[str], multiple: float) -> Callable[[World], list[float]]:
    return lambda world: [mean(papers.last_loss(world.small, label, multiple)) for label in which]


def percent(read: Reader) -> Reader:
    return lambda world: f"{100 * read(world):.0f}"


def share(results: Results, label: str, task: str, multiple: float) -> papers.Numbers:
    """Right answers at a length over all distances, by seed."""
    return results.numbers("retrieval", label, "accuracy", task=task, length=round(multiple * results.length))


def learned(results: Results, label: str, task: str) -> int:
    """How many seeds have."""
    return sum(one >= LEARNED for one in share(results, label, task, 1).values())


def behind(label: str, best: str, multiple: float, end: int) -> Reader:
    return lambda world: f"{(difference(world.small, label, best, multiple).ends or (0.0, 0.0))[end]:.2f}"


def parameters(label: str) -> Reader:
    return lambda world: f"{world.small.of(label)[0]['parameters'] / 1e6:.1f}M"


def other_parameters(world: World) -> list[int]:
    return [run["parameters"] for run in world.small.runs if run["encoding"] not in ("deberta", "transformer-xl")]


def rounding(results: Results, whole: Callable[[Value], Iterable[float]]) -> list[float]:
    """What every profile has over exact phases from position 0 on, at every length: means, or ends over seeds."""
    found: list[float] = []
    for length in results.seen("numerics", "length"):
        exact = results.numbers("numerics", labels.PROFILES[0], "last", length=length, shift=0)
        for label in labels.PROFILES:
            for shift in results.seen("numerics", "shift"):
                value = results.difference(results.numbers("numerics", label, "last", length=length, shift=shift), exact)
                found += [] if value is None else whole(value)
    return found


def passkeys_lost(results: Results) -> dict[int, list[int]]:
    """By length: how many fewer each profile finds than exact phases from the same position, of all seeds."""
    found: dict[int, list[int]] = {}
    for length in results.seen("numerics", "length"):
        for shift in results.seen("numerics", "shift"):
            counts = [sum(results.numbers("numerics", label, "passkey_accuracy", length=length, shift=shift).values()) for label in labels.PROFILES]
            found.setdefault(length, []).extend(round(presets.NUMERICS_EXAMPLES * (counts[0] - one)) for one in counts[1:])
    return found


def exact_passkeys(results: Results, multiple: float) -> papers.Numbers:
    return results.numbers("numerics", labels.PROFILES[0], "passkey_accuracy", length=round(multiple * results.length), shift=0)


def bf16_costs(world: World) -> dict[float, float]:
    return {one: difference(world.small, "rotary bf16 tables", "rotary", one).mean for one in world.small.seen("measured", "multiple", ("rotary",))}


def training_share(world: World, label: str) -> float:
    """Of rotary's speed in training, the mean over rounds."""
    rounds = world.gpu["rounds"]
    return sum(one["training"] / base["training"] for one, base in zip(rounds[label], rounds["rotary"])) / len(rounds[label])


def most_keys(world: World) -> int:
    return max(world.gpu["settings"]["keys"])


def decoding_share(world: World, label: str, keys: int | None = None) -> float:
    """Of rotary's speed, where a cache has so many keys; the most where it is not said."""
    at, rounds = str(most_keys(world) if keys is None else keys), world.gpu["rounds"]
    return sum(one["decoding"][at] / base["decoding"][at] for one, base in zip(rounds[label], rounds["rotary"])) / len(rounds[label])


def mean_step_ms(world: World, label: str, keys: int | None = None) -> float:
    """Milliseconds of a decoding step of all sequences together."""
    at, rounds = str(most_keys(world) if keys is None else keys), world.gpu["rounds"][label]
    return 1e3 * world.gpu["settings"]["decode_rows"] * sum(1 / one["decoding"][at] for one in rounds) / len(rounds)


def slow_decoders(world: World) -> bool:
    shares = [decoding_share(world, label) for label in ("transformer-xl", "shaw values", "deberta", "cope")]
    launched = str(most_keys(world)) in world.gpu["rounds"]["fire"][0]["launched"]
    return max(shares) <= 0.205 and launched and 1 / 36 <= decoding_share(world, "fire") <= 1 / 28


def answers(label: str, multiple: float, folder: str) -> Reader:
    return lambda world: f"{100 * mean(papers.found_answers(world.every[folder], label, round(multiple * world.every[folder].length))):.0f}"


def setting(read: Callable[[dict[str, Any]], Any], folder: str = "small") -> Reader:
    return lambda world: read(world.every[folder].runs[0]["settings"])


def store(name: str) -> Reader:
    """Of the manifest of the data that the results are of."""
    return lambda world: json.loads((STORES / f"{world.small.runs[0]['data'][:12]}.json").read_text())[name]


def greatest(folder: str) -> Reader:
    """The greatest length that was read, in times that of training."""
    return lambda world: f"{max(world.every[folder].seen('measured', 'multiple')):g}"


def examples(multiple: float) -> Callable[[World], set[int]]:
    return lambda world: {row["examples"] for label in RUNS for _, row in world.small.rows("retrieval", label, length=round(multiple * world.small.length))}


def ordered(folder: str, multiple: float, *names: str) -> Callable[[World], bool]:
    """Whether these ways of changing rotary are in this order, the least loss first."""

    def read(world: World) -> bool:
        found = [mean(papers.last_loss(world.every[folder], f"rotary, {name}", multiple)) for name in names]
        return found == sorted(found)

    return read


def leads(folder: str, multiple: float, name: str) -> Callable[[World], bool]:
    others = [how for how in (*SCALINGS, *MAPS) if how != name]
    return lambda world: all(ordered(folder, multiple, name, how)(world) for how in others)


def all_of(*checks: Reader) -> Reader:
    return lambda world: all(check(world) for check in checks)


def fails_after_a_fine_tune(world: World) -> bool:
    """YaRN and LongRoPE gain at 4x, linear is far behind, and all are far above that at 8x; of every folder."""
    found = []
    for results in (world.small, world.medium, world.small1024):
        at = {how: [mean(papers.last_loss(results, f"rotary, {how}", one, True)) for one in (4, 8)] for how in ("linear", "yarn", "longrope")}
        before = {how: mean(papers.last_loss(results, f"rotary, {how}", 4)) for how in at}
        found += [at[how][0] < before[how] and at["linear"][0] > at[how][0] + 0.5 for how in ("yarn", "longrope")]
        found += [after > tuned + 0.4 for tuned, after in at.values()]
    return all(found)


def level(folder: str, label: str, first: float, last: float, width: float) -> Callable[[World], bool]:
    def read(world: World) -> bool:
        results = world.every[folder]
        found = [mean(papers.last_loss(results, label, one)) for one in results.seen("measured", "multiple", (label,)) if first <= one <= last]
        return max(found) - min(found) <= width

    return read


def worst_at_and_beyond(world: World) -> bool:
    others = [label for label in labels.TRAINED if label != "none"]
    lengths = [one for one in world.small.seen("measured", "multiple") if one >= 4]
    return all(mean(papers.last_loss(world.small, "none", one)) > mean(found) for one in lengths for label in others if (found := papers.last_loss(world.small, label, one)))


def who_learned(world: World) -> bool:
    """As the sentence about chance has it; three seeds each."""
    small = world.small
    whole = all(learned(small, label, task) == 3 for label in (*BIASES, "transformer-xl", "sinusoidal") for task in ("passkey", "needles", "copying"))
    chance = all(learned(small, label, task) < 3 for label in ("shaw", "shaw values", "xpos", "deberta", "cope", "none", *ROTARY) for task in ("passkey", "needles", "copying"))
    rows = [sum(one > 0.5 for one in share(small, "learned", task, 1).values()) for task in ("passkey", "needles", "copying")]
    return whole and chance and rows == [3, 2, 2]


def rotary_passkeys(world: World) -> list[float]:
    return [one for label in ROTARY for one in share(world.small, label, "passkey", 1).values()]


def shares_of(world: World, task: str) -> list[float]:
    return [row["accuracy"] for label in (*labels.TRAINED, *CHANGED) for _, row in world.small.rows("retrieval", label, task=task)]


def chance(task: str) -> Reader:
    return lambda world: f"{100 * tasks.CHANCE[task]:.0f}"


def of_seed(label: str, task: str, multiple: float, seed: int) -> Reader:
    return percent(lambda world: share(world.small, label, task, multiple)[seed])


def only_seed(label: str, seed: int, *which: str) -> Callable[[World], bool]:
    """Whether this seed alone learned just these tasks."""
    return lambda world: all(([one for one, found in share(world.small, label, task, 1).items() if found >= LEARNED] == ([seed] if task in which else [])) for task in TASKS)
