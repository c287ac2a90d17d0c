# SPDX-License-Identifier: Apache-2.0
"""phasor.search: known optima are found, no factor falls, nothing is evaluated twice, and a run that is killed ends with the same bits."""

from __future__ import annotations

import json
import math
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import phasor
import phasor.search

SPEC = phasor.RotarySpec(10)  # 5 pairs
TARGET = (1.0, 1.07, 1.9, 3.3, 4.6)
SMALL: dict[str, Any] = {"population": 12, "parents": 6, "mutations": 4, "crossovers": 4, "iterations": 6}


def distance(spec: phasor.RotarySpec) -> float:
    """0 at TARGET, and nowhere else."""
    return sum((math.log(a) - math.log(b)) ** 2 for a, b in zip(spec.scaling.long_factors, TARGET))


def factors(found: phasor.search.Result) -> list[tuple[float, ...]]:
    return [one.spec.scaling.long_factors for one in found.evaluations]


# ---- LongRoPE ----


@pytest.mark.parametrize("seed", range(3))
def test_a_known_optimum_is_found_within_the_budget(seed: int) -> None:
    found = phasor.search.longrope(distance, SPEC, 4, 64, seed=seed)
    assert len(found.evaluations) <= 64 + 40 * 32
    assert found.loss == distance(found.spec) == min(one.loss for one in found.evaluations)
    np.testing.assert_allclose(found.spec.scaling.long_factors, TARGET, rtol=0.06)


def test_what_is_found_is_a_spec_as_models_have_them() -> None:
    found = phasor.search.longrope(distance, SPEC, 4, 64, **SMALL)
    scaling = found.spec.scaling
    assert (scaling.original_length, scaling.factor, scaling.choice) == (64, 4, "long_factors")
    frequencies = phasor.Rotary.from_spec(SPEC).frequencies / scaling.long_factors
    np.testing.assert_allclose(phasor.Rotary.from_spec(found.spec).frequencies, frequencies, rtol=1e-15)


@pytest.mark.parametrize("head_dim", [4, 10, 128])
def test_no_candidate_has_a_factor_that_falls_or_leaves_its_range(head_dim: int) -> None:
    loss = lambda spec: math.sin(1e3 * sum(spec.scaling.long_factors))  # noqa: E731
    for seed in range(3):
        for candidate in factors(phasor.search.longrope(loss, phasor.RotarySpec(head_dim), 8, 32, seed=seed, **SMALL)):
            assert len(candidate) == head_dim // 2
            assert 1 <= candidate[0] and candidate[-1] <= 10
            assert all(a <= b for a, b in zip(candidate, candidate[1:]))
            assert all(round(f * 100) == pytest.approx(f * 100, abs=1e-6) for f in candidate)


def test_it_begins_with_pi_ntk_and_yarn() -> None:
    """By their formulas: s; s^(2i / (R - 2)); a ramp over the turns in the original length, of 32 to 1."""
    first = factors(phasor.search.longrope(distance, phasor.RotarySpec(64), 4, 4096, evaluations=3))
    ntk = [4 ** (2 * i / 62) for i in range(32)]
    low, high = (64 * math.log(4096 / (turns * 2 * math.pi)) / (2 * math.log(10000)) for turns in (32, 1))
    ramp = [min(max((i - math.floor(low)) / (math.ceil(high) - math.floor(low)), 0), 1) for i in range(32)]
    yarn = [1 / (share / 4 + 1 - share) for share in ramp]
    for found, wanted in zip(first, ([4.0] * 32, ntk, yarn)):
        np.testing.assert_allclose(found, wanted, atol=0.0051)


def test_nothing_is_evaluated_twice() -> None:
    seen: list[Any] = []

    def loss(spec: phasor.RotarySpec) -> float:
        assert spec not in seen
        seen.append(spec)
        return distance(spec)

    found = phasor.search.longrope(loss, phasor.RotarySpec(4), 1.5, 64, step=0.25, most=2.0, population=9, parents=4, iterations=50)
    assert 9 < len(seen) == len(found.evaluations) <= 15  # of 5 values in 2 places, 15 never fall; 409 evaluations were allowed


def test_seeds_agree_and_differ() -> None:
    one, same, other = (phasor.search.longrope(distance, SPEC, 4, 64, seed=seed, **SMALL) for seed in (1, 1, 2))
    assert one == same
    assert factors(one) != factors(other)


def test_kept_tokens_are_searched_where_the_loss_takes_them() -> None:
    choices = (0, 1, 4, 16)
    asked = set()

    def loss(spec: phasor.RotarySpec, kept_tokens: int) -> float:
        asked.add(kept_tokens)
        return distance(spec) + abs(kept_tokens - 4)

    found = phasor.search.longrope(loss, SPEC, 4, 64, kept_tokens=choices, population=24, iterations=8, parents=8)
    assert found.kept_tokens == 4
    assert asked == set(choices)
    with pytest.raises(TypeError):  # a loss of one argument is not asked about tokens in silence
        phasor.search.longrope(distance, SPEC, 4, 64, kept_tokens=choices)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_losses_that_are_not_finite_are_the_worst(bad: float) -> None:
    def loss(spec: phasor.RotarySpec) -> float:
        return bad if spec.scaling.long_factors[-1] > 4.2 else distance(spec)

    found = phasor.search.longrope(loss, SPEC, 4, 64, **SMALL)
    assert math.isfinite(found.loss) and found.spec.scaling.long_factors[-1] <= 4.2
    assert any(not math.isfinite(one.loss) for one in found.evaluations)
    with pytest.raises(ValueError, match=r"none of \d+ candidates had a finite loss"):
        phasor.search.longrope(lambda spec: bad, SPEC, 4, 64, **SMALL)


def test_losses_may_be_arrays_of_one_and_nothing_else() -> None:
    assert phasor.search.longrope(lambda spec: np.float32(distance(spec)), SPEC, 4, 64, evaluations=5).loss > 0
    with pytest.raises(TypeError, match="search: the loss is a NoneType, wanted a number"):
        phasor.search.longrope(lambda spec: None, SPEC, 4, 64)  # type: ignore[arg-type, return-value]


BAD: list[tuple[dict[str, Any], str]] = [
    ({"factor": 0.5}, "search: factor is 0.5, wanted at least 1"),
    ({"step": 0}, "search: step is 0, wanted more than 0"),
    ({"most": 2.0}, "search: most is 2.0, wanted at least the factor, 4"),
    ({"probability": 0}, "search: probability is 0, wanted more than 0 and at most 1"),
    ({"kept_tokens": ()}, r"search: kept_tokens is \(\), wanted numbers of tokens"),
    ({"evaluations": 0}, "search: evaluations is 0, wanted at least 1"),
    ({"population": 0}, "search: population is 0, wanted a whole number"),
    ({"parents": 65}, "search: parents are 65 of a population of 64, wanted no more than that"),
    ({"original_length": 0}, "original_length"),
]


@pytest.mark.parametrize(("change", "words"), BAD)
def test_bad_numbers_are_refused_before_anything_is_evaluated(change: dict[str, Any], words: str, tmp_path: Path) -> None:
    def never(spec: phasor.RotarySpec) -> float:
        raise AssertionError("evaluated")

    given = {"factor": 4, "original_length": 64, **change}
    with pytest.raises(ValueError, match=words):
        phasor.search.longrope(never, SPEC, **given, state=tmp_path / "state")
    assert not list(tmp_path.iterdir())


# ---- State ----


def run(state: Path, evaluations: int) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-P", str(Path(__file__).with_name("killed.py")), str(state), str(evaluations)], capture_output=True, text=True)


def test_a_run_that_is_killed_ends_with_the_same_bits(tmp_path: Path) -> None:
    whole = run(tmp_path / "whole", 0)
    assert whole.returncode == 0, whole.stderr
    *wanted, evaluated = whole.stdout.split()
    assert int(evaluated) == int(wanted[-1]) > 30
    killed = tmp_path / "killed"
    done = 0
    for evaluations in (1, 8, 14):
        assert run(killed, evaluations).returncode == -signal.SIGKILL
        done += evaluations - 1
        assert len(json.loads(killed.read_text())["losses"] if killed.exists() else []) == done
    last = run(killed, 0)
    *found, evaluated = last.stdout.split()
    assert found == wanted
    assert int(evaluated) == int(wanted[-1]) - done  # what was known was not evaluated again
    assert killed.read_bytes() == (tmp_path / "whole").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["killed", "whole"]


def test_losses_that_are_not_finite_come_back_from_a_state(tmp_path: Path) -> None:
    values = iter([math.nan, math.inf, -math.inf, *range(100)])
    first = phasor.search.longrope(lambda spec: float(next(values)), SPEC, 4, 64, state=tmp_path / "state", evaluations=8)

    def never(spec: phasor.RotarySpec) -> float:
        raise AssertionError("evaluated")

    again = phasor.search.longrope(never, SPEC, 4, 64, state=tmp_path / "state", evaluations=8)
    assert repr(again) == repr(first)  # nan is not equal to nan


def test_a_state_of_another_search_is_refused(tmp_path: Path) -> None:
    state = tmp_path / "state"
    phasor.search.longrope(distance, SPEC, 4, 64, evaluations=4, state=state)
    before = state.read_bytes()
    with pytest.raises(ValueError, match="is of a search with seed 0, this one has 1; wanted the same, or another path"):
        phasor.search.longrope(distance, SPEC, 4, 64, evaluations=4, state=state, seed=1)
    with pytest.raises(ValueError, match="is of a search with"):
        phasor.search.line(lambda spec: spec.base, SPEC, "base", 1e3, 1e5, state=state)
    assert state.read_bytes() == before
    for text in ("", "[]", '{"phasor.search": 1}', '{"phasor.search":1,"settings":{},"losses":[[[1],"x"]]}'):
        state.write_text(text)
        with pytest.raises(ValueError, match="is no state of a search"):
            phasor.search.longrope(distance, SPEC, 4, 64, evaluations=4, state=state)
        assert state.read_text() == text


def test_an_error_in_the_loss_leaves_what_was_found(tmp_path: Path) -> None:
    state, done = tmp_path / "state", 0

    def fails(spec: phasor.RotarySpec) -> float:
        nonlocal done
        done += 1
        if done == 5:
            raise RuntimeError("out of memory")
        return distance(spec)

    with pytest.raises(RuntimeError, match="out of memory"):
        phasor.search.longrope(fails, SPEC, 4, 64, state=state, **SMALL)
    assert phasor.search.longrope(fails, SPEC, 4, 64, state=state, **SMALL) == phasor.search.longrope(distance, SPEC, 4, 64, **SMALL)


# ---- One field ----

LINES: list[tuple[phasor.RotarySpec, str, float, float, float]] = [
    (phasor.RotarySpec(64), "base", 1e3, 1e7, 123456.0),
    (phasor.RotarySpec(64, scaling=phasor.NtkScaling(1.0)), "scaling.alpha", 1, 64, 7.7),
    (phasor.RotarySpec(64, scaling=phasor.LinearScaling(1.0)), "scaling.factor", 1, 16, 1.0),
    (phasor.RotarySpec(64, scaling=phasor.YarnScaling(4.0, 2048)), "scaling.beta_fast", 2, 64, 64.0),
    (phasor.RotarySpec(64, scaling=phasor.YarnScaling(4.0, 2048)), "scaling.beta_slow", 0.1, 16, 2.5),
    (phasor.RotarySpec(64, scaling=phasor.YarnScaling(4.0, 2048)), "scaling.attention_factor", 0.5, 2, 1.1),
]


def at(field: str) -> Callable[[phasor.RotarySpec], float]:
    scaled, name = field.startswith("scaling."), field.removeprefix("scaling.")
    return lambda spec: getattr(spec.scaling if scaled else spec, name)


@pytest.mark.parametrize("scale", ["log", "linear"])
@pytest.mark.parametrize(("spec", "field", "low", "high", "optimum"), LINES)
def test_one_field_is_found(spec: phasor.RotarySpec, field: str, low: float, high: float, optimum: float, scale: str) -> None:
    value = at(field)
    found = phasor.search.line(lambda spec: abs(math.log(value(spec) / optimum)), spec, field, low, high, evaluations=40, scale=scale)
    assert value(found.spec) == pytest.approx(optimum, rel=1e-3)
    assert len({one.spec for one in found.evaluations}) == len(found.evaluations) <= 40
    assert all(low <= value(one.spec) <= high for one in found.evaluations)


def test_an_integer_field_takes_integers() -> None:
    spec = phasor.RotarySpec(64, scaling=phasor.YarnScaling(4.0, 2048))
    value = at("scaling.original_length")
    found = phasor.search.line(lambda spec: abs(value(spec) - 777), spec, "scaling.original_length", 100, 4000, evaluations=60)
    assert value(found.spec) == 777 and type(value(found.spec)) is int


def test_lines_go_on_from_a_state(tmp_path: Path) -> None:
    asked = 0

    def loss(spec: phasor.RotarySpec) -> float:
        nonlocal asked
        asked += 1
        return abs(math.log(spec.base / 5e4))

    some = phasor.search.line(loss, SPEC, "base", 1e3, 1e6, evaluations=12, state=tmp_path / "state")
    more = phasor.search.line(loss, SPEC, "base", 1e3, 1e6, evaluations=30, state=tmp_path / "state")
    assert asked == 30 and more.evaluations[:12] == some.evaluations


@pytest.mark.parametrize(
    ("field", "low", "high", "words"),
    [
        ("bases", 1, 2, "field is 'bases', and RotarySpec has no 'bases'; wanted one of head_dim, rotary_width"),
        ("scaling.factor", 1, 2, "and Unscaled has no 'factor'; wanted one of none"),
        ("pairing", 1, 2, "pairing is 'half', wanted the name of a number"),
        ("base", 2, 2, "the range is 2 to 2, wanted low < high, both above 0"),
        ("base", 0, 2, "the range is 0 to 2"),
        ("base", 1, math.inf, "the range is 1 to inf"),
    ],
)
def test_bad_fields_and_ranges_are_refused(field: str, low: float, high: float, words: str) -> None:
    with pytest.raises((ValueError, TypeError), match=words):
        phasor.search.line(lambda spec: 0.0, SPEC, field, low, high)


# ---- Progress ----


def test_nothing_is_printed_unless_asked_for(capfd: pytest.CaptureFixture[str]) -> None:
    phasor.search.longrope(distance, SPEC, 4, 64, evaluations=5)
    assert capfd.readouterr() == ("", "")
    phasor.search.longrope(distance, SPEC, 4, 64, evaluations=5, progress=True)
    out, err = capfd.readouterr()
    assert out == "" and "5 of 5, least loss" in err


def test_progress_may_be_a_function() -> None:
    seen: list[tuple[int, int, float]] = []
    found = phasor.search.longrope(distance, SPEC, 4, 64, evaluations=5, progress=lambda *now: seen.append(now))
    assert [now[:2] for now in seen] == [(i + 1, 5) for i in range(5)]
    assert seen[-1][2] == found.loss
