# SPDX-License-Identifier: Apache-2.0
"""Analysis, targets and properties through Python: numbers against plain NumPy, and what is refused."""

import math

import numpy as np
import phasor
import pytest
import torch
from phasor import analysis

ROPE = phasor.Rotary(head_dim=12, rotary_width=10, base=100.0, scaling=phasor.YarnScaling(factor=4.0, original_length=64))
RANDOM = np.random.default_rng(8)


def cosines(distances):
    return np.cos(np.multiply.outer(np.asarray(distances, float), ROPE.frequencies))


def test_matrices_are_rotations():
    x = RANDOM.standard_normal(12)
    turned = ROPE(x[None], positions=[9])[0]
    assert np.allclose(analysis.rotation_matrix(ROPE, 9) @ x[:10], turned[:10], rtol=0, atol=1e-14)
    relative = analysis.relative_matrix(ROPE, 3, 11)
    wanted = analysis.rotation_matrix(ROPE, 3).T @ analysis.rotation_matrix(ROPE, 11)
    assert relative.shape == (10, 10) and np.allclose(relative, wanted, rtol=0, atol=1e-14)


def test_wavelengths_and_turns():
    assert np.allclose(analysis.wavelengths(ROPE) * ROPE.frequencies, 2 * math.pi, rtol=1e-15)
    turns = [pair.turns for pair in analysis.pair_turns(ROPE, 500)]
    assert np.allclose(turns, 500 * ROPE.frequencies / (2 * math.pi), rtol=1e-14)


def test_decay_is_a_sum_of_cosines():
    at = np.array([0, 1, 5, 77, 1000])
    wanted = ROPE.amplitude**2 * cosines(at).sum(axis=1)
    assert np.allclose(analysis.decay(ROPE, at), wanted, rtol=0, atol=1e-12)
    both = analysis.decay([ROPE, ROPE.spec], at)
    assert both.shape == (5, 2) and (both[:, 0] == both[:, 1]).all()
    signs = analysis.decay(ROPE, range(200)) < 0
    assert analysis.first_negative(ROPE, 200) == int(np.argmax(signs)) and signs.any()
    assert analysis.first_negative(ROPE, 1) is None


def test_weights_are_a_softmax_of_scores():
    bias = -0.1 * np.arange(20)
    found = analysis.distance_weights(ROPE, 20, bias)
    sums = analysis.decay(ROPE, range(20))
    score = ROPE.softmax_scale * sums / math.sqrt(12) + bias
    assert np.allclose(found.sum, sums) and np.allclose(found.share, sums / 5) and np.allclose(found.score, score)
    assert np.allclose(found.weight, np.exp(score) / np.exp(score).sum(), rtol=1e-12)
    assert np.allclose(analysis.softmax_weights(score), found.weight, rtol=1e-12)


def test_similarity_of_positions_and_of_rows():
    at = [3, 0, 40]
    wanted = cosines(np.subtract.outer(at, at)).mean(axis=-1)
    assert np.allclose(analysis.similarity(ROPE, positions=at), wanted, rtol=0, atol=1e-13)
    inner = analysis.similarity(ROPE, positions=at, kind="inner_product")
    assert np.allclose(inner, wanted * 5 * ROPE.amplitude**2, rtol=0, atol=1e-12)
    a, b = RANDOM.standard_normal((3, 6)), RANDOM.standard_normal((4, 6)).astype(np.float32)
    unit = lambda x: x / np.linalg.norm(x, axis=1, keepdims=True)
    assert np.allclose(analysis.similarity(a, b), unit(a) @ unit(b.astype(float)).T, rtol=0, atol=1e-14)
    assert np.allclose(analysis.similarity(torch.from_numpy(a), kind="inner_product"), a @ a.T, rtol=0, atol=1e-13)
    found = analysis.orthogonality(a, b)
    assert found.cosines == 12 and math.isclose(found.mean_square, (analysis.similarity(a, b) ** 2).mean(), rel_tol=1e-12)


def test_gaps_are_the_smallest_distance():
    rows = RANDOM.standard_normal((9, 4))
    distances = np.linalg.norm(rows[:, None] - rows[None], axis=-1) + 1e9 * np.eye(9)
    found = analysis.smallest_gap(rows)
    assert math.isclose(found.gap, distances.min(), rel_tol=1e-12) and math.isclose(
        distances[found.first, found.second], found.gap, rel_tol=1e-12
    )
    rotary = analysis.smallest_gap(ROPE, 50)
    squares = 2 * ROPE.amplitude**2 * (1 - cosines(np.arange(1, 50))).sum(axis=1)
    assert (
        rotary.first == 0
        and rotary.second == 1 + int(np.argmin(squares))
        and math.isclose(rotary.gap, math.sqrt(squares.min()), rel_tol=1e-9)
    )


def test_the_four_terms_sum_to_the_score():
    x, p = RANDOM.standard_normal((5, 4)), RANDOM.standard_normal((5, 4))
    wq, wk = RANDOM.standard_normal((4, 3)), RANDOM.standard_normal((4, 3))
    terms = analysis.score_terms(x, p, wq, wk, scale=0.5)
    parts = terms.content_content, terms.content_position, terms.position_content, terms.position_position
    assert np.allclose(sum(parts), terms.score, rtol=0, atol=1e-13)
    assert np.allclose(terms.score, 0.5 * (x + p) @ wq @ ((x + p) @ wk).T, rtol=0, atol=1e-12)
    assert np.allclose(terms.content_position, 0.5 * x @ wq @ (p @ wk).T, rtol=0, atol=1e-12)


def test_errors_grow_with_the_position_but_not_ours():
    near, far = analysis.profile_errors(ROPE, [100, 10**7])
    assert near.position == 100 and far.exact < 1e-7 and far.hf > 1e-2 and near.hf < far.hf
    assert analysis.angle_error(ROPE, 10**7).exact == far.exact
    mixed = phasor.RotarySpec(head_dim=8, scaling=phasor.NtkMixedScaling(factor=2.0))
    assert analysis.profile_errors(mixed, [10])[0].hf is None
    report = analysis.precision_report(ROPE, [10**6], 3)
    by = {(error.numerics, error.dtype): error for error in report}
    assert by["exact", "f32"].cos_sin < 1e-7 < by["hf", "f32"].cos_sin and by["exact", "bf16"].score > by["exact", "f32"].score


def test_what_no_memory_can_hold_is_a_memory_error():
    for digits in (2**58, 2**60):  # more than a machine addresses, more than a vector can have
        with pytest.raises(MemoryError, match="out of memory"):
            analysis.measure_encoding("binary", 64, digits=digits)


def test_scores_depend_on_the_distance_alone():
    q, k = (torch.randn(7, heads, 12) for heads in (6, 2))
    found = analysis.distance_check(ROPE, q, k, 10**6)
    assert 0 < found.exact_difference <= found.rounding < found.float32_difference and found.scores > 0


def test_a_plan_says_what_each_scaling_does():
    plans = analysis.plan_scalings(phasor.RotarySpec(head_dim=64), 1024, 4096)
    by = {plan.name: plan for plan in plans}
    assert plans[0].name == "as trained" and plans[0].unseen_from == 1024
    assert {pair.ratio for pair in by["linear"].pairs} == {0.25} and by["linear"].scaling == phasor.LinearScaling(factor=4.0)
    given = analysis.plan_scalings(phasor.RotarySpec(head_dim=64), 1024, 4096, [phasor.NtkScaling(alpha=8.0)])
    assert len(given) == 2 and given[1].scaling == phasor.NtkScaling(alpha=8.0)
    assert given[1].pairs[1].frequency == phasor.Rotary(head_dim=64, scaling=phasor.NtkScaling(alpha=8.0)).frequencies[1]


def test_properties_tell_encodings_apart():
    table = analysis.properties(width=16, length=32)
    assert [name for name, found in table.items() if not found.bounded] == ["raw_index"]
    assert [name for name, found in table.items() if not found.independent_of_length] == ["scaled_index"]
    assert [name for name, found in table.items() if found.relative] == ["sinusoidal"]
    learned = analysis.measure_encoding(RANDOM.standard_normal((32, 4)), 16, 32)
    assert learned.unique and not learned.defined_beyond and len(learned.alternations) == 4
    spec = phasor.SinusoidalSpec(width=16)
    assert analysis.measure_encoding(spec, 32) == table["sinusoidal"]


def test_adding_is_concatenating_with_shared_weights():
    x, p, weights = RANDOM.standard_normal(4), RANDOM.standard_normal(4), RANDOM.standard_normal((4, 3))
    found = analysis.compare_adding(x, p, weights)
    assert np.allclose(found.added, (x + p) @ weights) and np.allclose(found.added, found.concatenated) and found.extra_parameters == 12


def test_an_encoding_may_be_named_by_a_config():
    config = {"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 2}
    assert (analysis.wavelengths(config) == analysis.wavelengths(phasor.Rotary(head_dim=16))).all()


def test_targets_give_the_same_bits():
    assert phasor.targets()[-1] == "scalar" and phasor.active_target() in phasor.targets()
    x = RANDOM.standard_normal((9, 3, 12)).astype(np.float32)
    wanted = ROPE(x, positions=10**9)
    try:
        for target in phasor.targets():
            phasor.force_target(target)
            assert phasor.active_target() == target and (ROPE(x, positions=10**9) == wanted).all()
        with pytest.raises((ValueError, NotImplementedError), match="abacus"):
            phasor.force_target("abacus")
    finally:
        phasor.force_target("")
    assert phasor.version() == phasor.__version__ == "0.1.0"


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: analysis.rotation_matrix(phasor.Rotary(head_dim=4098), 1), ValueError, "4096"),
        (lambda: analysis.relative_matrix(ROPE, -(2**63), 2**62), ValueError, "64"),
        (lambda: analysis.decay(phasor.Rotary(head_dim=8, pairing="interleaved", lanes="per_channel_frequencies"), [1]), NotImplementedError, "per_channel_frequencies"),
        (lambda: analysis.decay(ROPE, [0.5]), TypeError, "integers"),
        (lambda: analysis.decay(7, [1]), TypeError, "wanted a path"),
        (lambda: analysis.distance_weights(ROPE, 5, [1.0]), ValueError, "bias"),
        (lambda: analysis.softmax_weights([math.nan]), ValueError, "softmax_weights"),
        (lambda: analysis.similarity(np.eye(2), np.eye(3)), ValueError, "3"),
        (lambda: analysis.similarity(np.eye(2), kind="angle"), ValueError, "cosine or inner_product"),
        (lambda: analysis.similarity(ROPE, np.eye(2), positions=[1]), ValueError, "both given"),
        (lambda: analysis.smallest_gap(np.zeros((1, 3))), ValueError, "2"),
        (lambda: analysis.score_terms(np.zeros((2, 3)), np.zeros((3, 3))), ValueError, "score_terms"),
        (lambda: analysis.plan_scalings(ROPE, 0, 10), ValueError, "trained_length"),
        (lambda: analysis.plan_scalings(ROPE, 10, 20, ["yarn"]), TypeError, "YarnScaling"),
        (lambda: analysis.measure_encoding("gray", 16), ValueError, "raw_index"),
        (lambda: analysis.measure_encoding(phasor.Sinusoidal(4), 1), ValueError, "length"),
        (lambda: analysis.compare_adding([1.0], [1.0, 2.0], [[1.0]]), ValueError, "compare_adding"),
    ],
)
def test_what_does_not_fit_is_refused(call, error, words):
    with pytest.raises(error, match=words):
        call()
