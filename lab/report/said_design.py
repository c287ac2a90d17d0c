# SPDX-License-Identifier: Apache-2.0
"""Sentences of docs/design/lab.md whose numbers come from result files or prices of now, each with what gives them. Most numbers of that page are of
measurements that no file has any more, so only these are held (`prose.untrue`)."""

from __future__ import annotations

from lab.report import ends, papers
from lab.report.labels import FAMILIES
from lab.report.losses import end_loss, last_loss, tokens_told
from lab.report.prose import Reader, Said, World, said
from lab.report.readings import ended, gained, loss, mean, value_there
from lab.report.said_lengths import shorter, told
from lab.report.said_prices import FEW, alone_slower, decodes, more_a_layer


def step(label: str) -> Reader:
    """Milliseconds of a step of training."""

    def read(world: World) -> str:
        settings, own = world.gpu["settings"], world.gpu["rounds"][label]
        return f"{1e3 * settings['rows'] * world.gpu['shape']['length'] * sum(1 / one['training'] for one in own) / len(own):.1f}"

    return read


def lost(label: str, multiple: float) -> Reader:
    """Nats from the trained length on, at the end."""
    return lambda world: f"{-of_measure(world, papers.falls(label, multiple)).mean:.2f}"


def of_measure(world: World, measure: papers.Measure) -> papers.Value:
    return value_there(measure.difference(world.small))


def have_memory(world: World) -> bool:
    """Whether both files of prices say what training and decoding take."""
    return all("own_bytes" in one[0] and one[0].get("decoding_bytes") for found in (world.gpu, world.cpu_prices) for one in found["rounds"].values())


def best_bias(world: World) -> bool:
    """FIRE up to twice the length, but for its end; and the worst at four times."""
    biases = FAMILIES["bias by distance"]
    first = [min(biases, key=lambda label: mean(last_loss(world.small, label, one))) for one in (1, 1.5, 2)]  # noqa: B023
    at_end = min(biases, key=lambda label: mean(end_loss(world.small, label, 2)))
    return first == ["fire"] * 3 and at_end == "kerple" and max(biases, key=lambda label: mean(last_loss(world.small, label, 4))) == "fire"


SAID_DESIGN: tuple[Said, ...] = (
    said(
        "encodings that read 1.5x at all by {} to {} nats, so that even ALiBi, which does not look far, seemed to gain ({} to 8x; {} on the last {}).",
        *(lambda world, which=which: f"{which(shorter(world)):.2f}" for which in (min, max)),
        *(lambda world: f"{mean(last_loss(world.small, 'alibi', 1)) - mean(last_loss(world.small, 'alibi', 8)):.3f}", gained("alibi"), told()),
    ),
    said("whose {} parts tell it up to 8x", lambda world: len(world.small.rows("measured", "rotary", multiple=8)[0][1]["by_position"]), holds=lambda world: max(ends.lengths(world.small)) == 8),
    said("at 2x half of them stand where NTK still works ({} there, {} on the last {})", loss("rotary, ntk", 2), ended("rotary, ntk", 2), told()),
    said("both files of now have it", holds=have_memory),
    said(
        "After {} steps of fine-tuning linear interpolation is {} nats behind what rotary has at its own length",
        lambda world: world.small.runs[0]["settings"]["changes"]["tune_steps"],
        lambda world: f"{-of_measure(world, papers.no_worse('rotary, linear', 4, 'rotary', True)).mean:.2f}",
    ),
    said(
        "ms a step of training where rotary takes {}, of `gpu.json`: Shaw {}, Transformer-XL {}, DeBERTa {}, CoPE {}, Shaw's values {}.",
        *(step(label) for label in ("rotary", "shaw", "transformer-xl", "deberta", "cope", "shaw values")),
    ),
    said(
        "Decoding against {} keys ALiBi has {} of rotary's tokens per second, KERPLE {}, Sandwich {}, Transformer-XL {} and DeBERTa {}.",
        lambda world: max(world.gpu["settings"]["keys"]),
        *(decodes(label) for label in ("alibi", "kerple", "sandwich", "transformer-xl", "deberta")),
    ),
    said("at {} keys ({} of rotary's speed against {})", lambda world: FEW, decodes("shaw", FEW), decodes("shaw values", FEW), holds=alone_slower),
    said("It is {} ms a layer whatever the number of keys", lambda world: f"{more_a_layer('shaw', FEW)(world):.2f}"),
    said(
        "At the end of {} times the length (the last {} tokens) none loses {} nats and rotary {}, of twice it (the last {}) {} and {}",
        *(lambda world: 1.5, lambda world: tokens_told(world.small, 1, 1.5), lost("none", 1.5), lost("rotary", 1.5), told(), lost("none", 2), lost("rotary", 2)),
    ),
    said("Ours is the best of the biases at 1x, 1.5x and 2x (but for the last {} tokens of 2x, where KERPLE is) and the worst at 4x.", told(), holds=best_bias),
    said(
        "Ours on the last {} tokens: {} better at twice the length, no clear difference, and the same at {} times.",
        *(told(), lambda world: of_measure(world, papers.falls("alibi", 2)).written(), lambda world: max(world.small.seen("measured", "multiple"))),
        holds=lambda world: papers.verdict(of_measure(world, papers.falls("alibi", 2))) == papers.SAME and abs(value_there(ends.gained_beyond(world.small, "alibi")).mean) < papers.CLEAR,
    ),
    said("at the end of it it fails ({}, where rotary has {} at its own length)", ended("rotary, ntk", 2), ended("rotary", 1)),
    said(
        "at the end of 2x linear interpolation costs our rotary model {} nats over YaRN",
        lambda world: f"{of_measure(world, papers.above('rotary, linear', 'rotary, yarn', 2, end=True)).mean:.2f}",
    ),
)
