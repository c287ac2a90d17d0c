# SPDX-License-Identifier: Apache-2.0
"""What others got wrong, or mean differently: the twelve traps of relative attention, each with the kernels."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor
from transformers.models.deberta_v2.modeling_deberta_v2 import build_relative_position, build_rpos, make_log_bucket_position
from transformers.models.t5.modeling_t5 import T5Attention

import phasor

B, H, D = 1, 2, 4


def uniform(*shape: int, seed: int = 1) -> Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) * 2 - 1


def tensors(tq: int, tk: int, seed: int = 7) -> tuple[Tensor, Tensor, Tensor]:
    return uniform(B, tq, H, D, seed=seed), uniform(B, tk, H, D, seed=seed + 1), uniform(B, tk, H, D, seed=seed + 2)


def plain(q: Tensor, k: Tensor, v: Tensor, extra: Tensor | float = 0.0, scale: float = D**-0.5, hidden: Tensor | None = None) -> Tensor:
    """softmax(scale q . k + extra) v, extra (H, Tq, Tk) or (B, H, Tq, Tk)."""
    s = torch.einsum("bihd,bjhd->bhij", q, k) * scale + extra
    s = s if hidden is None else s.masked_fill(hidden, -math.inf)
    return torch.einsum("bhij,bjhd->bihd", torch.softmax(s, -1), v)


def distances(tq: int, tk: int) -> Tensor:
    """Query position - key position, the last query with the last key."""
    return torch.arange(tk - tq, tk)[:, None] - torch.arange(tk)[None, :]


def same(got: Tensor, want: Tensor) -> None:
    torch.testing.assert_close(got, want, atol=1e-12, rtol=0)


def differ(got: Tensor, want: Tensor) -> None:
    assert (got - want).abs().max() > 1e-4


def test_trap_1_deberta_p2c_goes_by_query_minus_key_as_both_code_bases_do():
    n = 40
    q, k, v = tensors(n, n)
    table = uniform(16, H, D)

    def by(r: Tensor) -> Tensor:
        rows = (make_log_bucket_position(r, 8, 16).long() + 8).clamp(0, 15)
        return D**-0.5 * torch.einsum("bjhd,ijhd->bhij", k, table[rows])

    got = phasor.attention(q, k, v, phasor.Deberta(None, table, 8, 16))
    same(got, plain(q, k, v, by(distances(n, n))))
    differ(got, plain(q, k, v, by(-distances(n, n))))  # the paper's


def test_trap_2_far_ahead_hugging_face_reads_row_0_and_microsoft_row_1():
    n = 60
    q, k, v = tensors(n, n)
    only = [torch.zeros(16, H, D, dtype=torch.float64) for _ in range(2)]
    for row, table in enumerate(only):
        table[row] = uniform(H, D)
    ahead = torch.einsum("bihd,hd->bhi", q, only[0][0])[..., None] * D**-0.5
    far = distances(n, n) <= -16
    attend = lambda table, reading: phasor.attention(q, k, v, phasor.Deberta(table, None, 8, 16, c2p=reading))  # noqa: E731
    same(attend(only[0], "hf"), plain(q, k, v, torch.where(far, ahead, 0.0)))
    same(attend(only[0], "microsoft"), plain(q, k, v))
    differ(attend(only[1], "microsoft"), attend(only[1], "hf"))


def test_trap_3_hugging_face_swaps_buckets_and_farthest_where_queries_are_fewer():
    tq, tk, buckets, farthest = 30, 50, 8, 32
    q, k, v = tensors(tq, tk)
    table = uniform(2 * buckets, H, D)
    relative = build_rpos(q[0, :, 0], k[0, :, 0], build_relative_position(q[0, :, 0], k[0, :, 0], buckets, farthest), farthest, buckets)[0]
    rows = (-relative + buckets).clamp(0, 2 * buckets - 1).T[:tq]  # as the module gathers and transposes
    want = plain(q, k, v, D**-0.5 * torch.einsum("bjhd,ijhd->bhij", k, table[rows]))
    attend = lambda reading: phasor.attention(  # noqa: E731
        q, k, v, phasor.Deberta(None, table, buckets, farthest, p2c=reading), query_positions=0, key_positions=0
    )
    same(attend("hf_swapped"), want)
    differ(attend("hf"), want)


def test_trap_4_the_scale_is_on_some_terms_and_not_on_others():
    n, scale = 9, 0.37
    q, k, v = tensors(n, n)
    r = distances(n, n)
    t5 = uniform(H, 8)
    buckets = torch.from_numpy(phasor.t5_buckets(r.numpy(), 8, 6))
    same(phasor.attention(q, k, v, phasor.T5(t5, max_distance=6), scale=scale), plain(q, k, v, t5[:, buckets], scale))
    features, profile = uniform(B, n, H, 3), uniform(3, n)
    inkling = torch.einsum("bihw,wij->bhij", features, profile[:, r.clamp(min=0)])
    ahead = r < 0
    got = phasor.attention(q, k, v, phasor.Inkling(features, profile), True, scale=scale)
    same(got, plain(q, k, v, inkling, scale, ahead))
    rows_h, rows_w = uniform(5, D), uniform(5, D, seed=5)
    y, x = torch.arange(n) // 3, torch.arange(n) % 3
    rows = rows_h[y[:, None] - y + 2] + rows_w[x[:, None] - x + 2]
    sam = torch.einsum("bihd,ijd->bhij", q, rows)
    same(phasor.attention(q, k, v, phasor.Decomposed(rows_h, rows_w, (3, 3), (3, 3)), scale=scale), plain(q, k, v, sam, scale))
    shaw = uniform(5, D)
    term = torch.einsum("bihd,ijd->bhij", q, shaw[(-r).clamp(-2, 2) + 2])
    same(phasor.attention(q, k, v, phasor.Shaw(shaw, left=2, right=2), scale=scale), plain(q, k, v, scale * term, scale))
    table, u, w = uniform(2 * n - 1, H, D), uniform(H, D), uniform(H, D, seed=4)
    term = torch.einsum("bihd,ijhd->bhij", q + w, table[n - 1 - r]) + torch.einsum("hd,bjhd->bhj", u, k)[:, :, None]
    same(phasor.attention(q, k, v, phasor.TransformerXL(table, n - 1, u, w), scale=scale), plain(q, k, v, scale * term, scale))
    assert math.isclose(phasor.nn.DebertaScheme(H, D, buckets=4, max_distance=8).scale, (3 * D) ** -0.5, rel_tol=1e-15)


def test_trap_5_signs_t5_key_minus_query_deberta_query_minus_key_wav2vec2_bert_clipped_on_each_side():
    n = 30
    q, k, v = tensors(n, n)
    at = torch.arange(n)
    table = uniform(H, 32)
    buckets = T5Attention._relative_position_bucket(at[None, :] - at[:, None], True, 32, 128)
    same(phasor.attention(q, k, v, phasor.T5(table)), plain(q, k, v, table[:, buckets]))
    rows = uniform(16, H, D)
    by = (make_log_bucket_position(at[:, None] - at[None, :], 8, 16).long() + 8).clamp(0, 15)
    want = plain(q, k, v, D**-0.5 * torch.einsum("bihd,ijhd->bhij", q, rows[by]))
    same(phasor.attention(q, k, v, phasor.Deberta(rows, None, 8, 16)), want)
    clipped = uniform(10, D)
    by = (at[None, :] - at[:, None]).clamp(-7, 2) + 7
    want = plain(q, k, v, D**-0.5 * torch.einsum("bihd,ijd->bhij", q, clipped[by]))
    same(phasor.attention(q, k, v, phasor.Shaw(clipped, left=7, right=2)), want)


@pytest.mark.parametrize("last", [1, 3, 70])
def test_trap_6_fewer_queries_are_the_last_ones(last):
    n = 200
    q, k, v = tensors(n, n)
    for scheme in (
        phasor.T5(uniform(H, 32), False),
        phasor.Shaw(uniform(9, D), uniform(9, D), 4, 4),
        phasor.Alibi(),
        phasor.Rope(phasor.Rotary(head_dim=D)),
    ):
        for causal in (False, True):
            whole = phasor.attention(q, k, v, scheme, causal, scale=1.0)
            same(phasor.attention(q[:, -last:], k, v, scheme, causal, scale=1.0), whole[:, -last:])


def test_trap_7_what_rel_shift_leaves_above_the_diagonal_is_never_seen():
    tq, tk = 5, 8
    q, k, v = tensors(tq, tk)
    table, u, w = uniform(tk, H, D), uniform(H, D), uniform(H, D, seed=3)  # distances tk - 1, ..., 0
    bd = torch.einsum("bihd,rhd->bhir", q + w, table)
    shifted = torch.nn.functional.pad(bd, (1, 0)).view(B, H, tk + 1, tq)[:, :, 1:].reshape(B, H, tq, tk)  # the paper's code
    term = D**-0.5 * (shifted + torch.einsum("hd,bjhd->bhj", u, k)[:, :, None])
    want = plain(q, k, v, term, hidden=distances(tq, tk) < 0)
    same(phasor.attention(q, k, v, phasor.TransformerXL(table, tk - 1, u, w), True), want)
    longer = torch.cat([table, torch.full((tq, H, D), 1e3, dtype=torch.float64)])  # rows of distances below 0
    same(phasor.attention(q, k, v, phasor.TransformerXL(longer, tk - 1, u, w), True), want)


def test_trap_8_the_soft_cap_comes_after_the_relative_term():
    n, cap = 12, 0.8
    q, k, v = tensors(n, n)
    table = 3 * uniform(5, D)
    term = torch.einsum("bihd,ijd->bhij", q, table[(-distances(n, n)).clamp(-2, 2) + 2])
    content = torch.einsum("bihd,bjhd->bhij", q, k)
    after = torch.einsum("bhij,bjhd->bihd", torch.softmax(cap * torch.tanh((content + term) / cap), -1), v)
    before = torch.einsum("bhij,bjhd->bihd", torch.softmax(cap * torch.tanh(content / cap) + term, -1), v)
    got = phasor.attention(q, k, v, phasor.Shaw(table, left=2, right=2), scale=1.0, softcap=cap)
    same(got, after)
    differ(got, before)


def test_trap_9_slopes_on_key_positions_are_alibi_only_where_softmax_drops_the_row():
    n = 70
    q, k, v = tensors(n, n)
    by_key = phasor.Alibi(form="key_position")
    same(phasor.attention(q, k, v, by_key, True), phasor.attention(q, k, v, phasor.Alibi(), True))
    differ(phasor.attention(q, k, v, by_key), phasor.attention(q, k, v, phasor.Alibi()))
    _, lse = phasor.attention(q, k, v, by_key, True, return_lse=True)
    _, true_lse = phasor.attention(q, k, v, phasor.Alibi(), True, return_lse=True)
    slopes = torch.from_numpy(phasor.alibi_slopes(H))
    same(lse - torch.arange(n)[None, :, None] * slopes, true_lse)  # what the row drops, lse keeps


def test_trap_10_only_the_table_requires_a_gradient():
    n = 40
    q, k, v = tensors(n, n)
    weights = uniform(B, n, H, D)
    r = distances(n, n)
    for scheme, dense, shape in (
        (lambda t: phasor.T5(t), lambda t: t[:, torch.from_numpy(phasor.t5_buckets(r.numpy()))], (H, 32)),
        (
            lambda t: phasor.Shaw(t, left=3, right=3),
            lambda t: D**-0.5 * torch.einsum("bihd,ijd->bhij", q, t[(-r).clamp(-3, 3) + 3]),
            (7, D),
        ),
        (lambda t: phasor.BiasTerm(phasor.Alibi(), t), lambda t: -t[:, None, None] * r.abs(), (H,)),
        (lambda t: phasor.Dense(t), lambda t: t, (H, n, n)),
    ):
        table = uniform(*shape).requires_grad_()
        (got,) = torch.autograd.grad((phasor.attention(q, k, v, scheme(table)) * weights).sum(), table)
        (want,) = torch.autograd.grad((plain(q, k, v, dense(table)) * weights).sum(), table)
        same(got, want)


HIDDEN_BY = {
    "mask": lambda mask, tq: {"key_mask": mask},
    "causality": lambda mask, tq: {"causal": True, "query_positions": 100 - tq, "key_positions": 0},
    "window": lambda mask, tq: {"window": (None, 0), "query_positions": 100 - tq, "key_positions": 0},
    "lengths": lambda mask, tq: {"cu_seqlens": ([0, tq, tq], [0, 100, 150])},
}


@pytest.mark.parametrize("hidden_by", HIDDEN_BY)
@pytest.mark.parametrize("tq", [1, 4, 100])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_trap_11_nothing_of_a_hidden_key_is_seen_not_even_its_nan(hidden_by, tq, dtype):
    n = 150
    mask = torch.ones(B, n, dtype=torch.bool)
    mask[:, 100:] = False
    if hidden_by == "mask":
        mask[:, 3] = False
    options = HIDDEN_BY[hidden_by](mask, tq)
    deberta = phasor.Deberta(uniform(16, H, D), uniform(16, H, D), 8, 16)
    for scheme in (None, phasor.Alibi(), phasor.Shaw(uniform(9, D), uniform(9, D), 4, 4), deberta):
        results = []
        for value in (0.0, math.nan, math.inf):
            q, k, v = (x.to(dtype) for x in tensors(tq, n))
            # Values that causality or a window hides may share a tile with seen ones, and 0 x NaN is NaN: those want a mask, too.
            for x in (k, v) if hidden_by in ("mask", "lengths") else (k,):
                x[~mask] = value
            for x in (q, k, v):
                x.requires_grad_()
            out = phasor.attention(q, k, v, scheme, **options)
            results.append([out, *torch.autograd.grad(out.sum(), (q, k, v))])
        for poisoned in results[1:]:
            assert all(torch.equal(a, b) for a, b in zip(results[0], poisoned))


def test_trap_11_rows_that_see_nothing_are_zeros_with_zero_gradients():
    n = 90
    q, k, v = (x.requires_grad_() for x in tensors(n, n))
    table = uniform(H, 32).requires_grad_()
    at = torch.arange(n) - 40  # the first forty queries come before every key
    out, lse = phasor.attention(q, k, v, phasor.T5(table), True, query_positions=at, key_positions=0, return_lse=True)
    assert (
        torch.equal(out[:, :40], torch.zeros_like(out[:, :40])) and torch.isneginf(lse[:, :40]).all() and torch.isfinite(lse[:, 40:]).all()
    )
    gradients = torch.autograd.grad(out.sum(), (q, k, v, table))
    assert all(torch.isfinite(x).all() for x in gradients)
    assert torch.equal(gradients[0][:, :40], torch.zeros_like(out[:, :40]))


def test_trap_12_a_rank_of_tensor_parallelism_says_which_slopes_are_its_own():
    n, heads = 40, 6
    q, k, v = (uniform(B, n, heads, D, seed=s) for s in (1, 2, 3))
    whole = phasor.attention(q, k, v, phasor.Alibi(), True)
    slopes = phasor.alibi_slopes(heads)
    for first in (0, 2, 4):
        mine = [x[:, :, first : first + 2] for x in (q, k, v)]
        want = whole[:, :, first : first + 2]
        same(phasor.attention(*mine, phasor.Alibi(slopes=slopes[first : first + 2]), True), want)
        same(phasor.attention(*mine, phasor.BiasTerm(phasor.Alibi(heads=heads), first_head=first), True), want)
    differ(phasor.attention(q[:, :, 2:4], k[:, :, 2:4], v[:, :, 2:4], phasor.Alibi(), True), whole[:, :, 2:4])  # the local count
