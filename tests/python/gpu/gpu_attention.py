# SPDX-License-Identifier: Apache-2.0
"""phasor.attention on a GPU: every scheme against its formula in full and against the CPU, with gradients; masks, dropout, weights, merging."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import phasor
from attention_cases import B, D, H, HK, SCHEMES, TK, TQ, UNIT, apart, hold, hold_options, module_results, on, qkv, results
from cases import DEVICE, ON_GPU, needs_gpu, numbers, raises, same_bits

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "attention"))
import attention_oracle as oracle  # noqa: E402


# ---- Against formulas spelled out ----


def bound(name: str, case: Any, dtype: torch.dtype, heads: int, size: float) -> float:
    """How far a result may be off, whatever the order of its sums. Numbers of a call are below 2. A score is a sum of a product of D numbers and of
    at most four terms of such products, each below 4 D: error below 5 D (4 D) u. A weight's is twice that, and a few u more of its exponential; an
    output's is that of its weight, and one u per key. A gradient has the error of its weight, times the gradients of scores (below 4 D), summed
    over the rows of its heads."""
    tq, tk = case.tokens
    u, width = UNIT[dtype], oracle.D
    of_weight = 2 * 5 * width * 4 * width * u + (tk + 16) * u
    if name in ("out", "lse"):
        return 2 * of_weight * max(size, 1.0)
    return of_weight * 4 * width * oracle.B * tq * heads


def oracle_results(name: str, dtype: torch.dtype) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    case = oracle.CASES[name]
    inputs, x = oracle.qkv(*case.tokens, dtype=dtype), case.tensors(dtype=dtype)
    mask = oracle.Mask(**case.mask)
    exact_inputs, exact_x = ([t.detach().double().requires_grad_() for t in inputs], {k: t.detach().double().requires_grad_() for k, t in x.items()})
    wanted = results(lambda *qkv: oracle.naive(case, *qkv, exact_x, mask), exact_inputs, exact_x, dtype)
    inputs, x = on(DEVICE, inputs), on(DEVICE, x)

    def attend(*qkv: Tensor) -> Any:
        scheme = case.scheme(x)
        if name == "xlnet":
            scheme = phasor.XLNet(scheme.xl, x["e"], x["s"], *(of.contiguous().to(DEVICE) for of in (oracle.QUERY_SEGMENTS, oracle.KEY_SEGMENTS)))
        return phasor.attention(*qkv, scheme, return_lse=True, **mask.options())

    return results(attend, inputs, x, dtype), wanted


def test_every_scheme_is_its_formula() -> None:
    worst = []
    for name, case in oracle.CASES.items():
        for dtype in (torch.float64, torch.float32):
            got, wanted = oracle_results(name, dtype)
            for result, distance in apart(got, wanted).items():
                finite = wanted[result][wanted[result].isfinite()]
                allowed = bound(result, case, dtype, oracle.H, finite.abs().max().item() if finite.numel() else 0.0)
                if distance > allowed:
                    worst.append(f"{name} {dtype}: {result} is {distance:.3g} off, wanted {allowed:.3g}")
    assert not worst, "; ".join(worst)


# ---- Against the CPU ----


def test_every_module_of_nn_in_every_dtype() -> None:
    worst = []
    for name in SCHEMES:
        exact: dict[torch.dtype, Any] = {}
        for dtype in (torch.float64, torch.float32, torch.bfloat16, torch.float16):
            arithmetic = torch.float64 if dtype == torch.float64 else torch.float32
            exact[dtype] = module_results(name, dtype, "cpu", True)
            try:
                hold(module_results(name, dtype, DEVICE), module_results(name, dtype, "cpu"), exact[dtype], dtype, arithmetic)
            except AssertionError as error:
                worst.append(f"{name} {dtype}: {error}")
    assert not worst, "; ".join(worst)


PLAIN = ({}, lambda x: None)
MIXED = (
    {"table": (H, 32), "keys": (33, D), "values": (33, D)},
    lambda x: [phasor.T5(x["table"], max_distance=40), phasor.Shaw(x["keys"], x["values"]), phasor.Rope(phasor.Rotary(D))],
)
KEY_MASK = torch.rand(B, TK, generator=torch.Generator().manual_seed(2)) < 0.7
KEY_MASK[1] = False  # nobody sees anything there
AT = torch.randint(0, 300, (B, TQ), generator=torch.Generator().manual_seed(3))
OF = torch.randint(0, 300, (B, TK), generator=torch.Generator().manual_seed(4))
OPTIONS: dict[str, dict[str, Any]] = {
    "causal": {"causal": True},
    "window": {"causal": True, "window": 33},
    "window both ways": {"window": (20, 5)},
    "prefix": {"causal": True, "prefix": torch.tensor([70, 0])},
    "key_mask": {"key_mask": KEY_MASK},
    "positions": {"causal": True, "query_positions": AT[0], "key_positions": OF[0]},
    "positions of rows": {"query_positions": AT.int(), "key_positions": OF.int(), "causal": True},
    "offsets": {"causal": True, "query_positions": 900, "key_positions": 850},
    "softcap": {"softcap": 3.0, "scale": 0.3},
    "sinks": {"sinks": numbers(H, seed=7).requires_grad_(), "causal": True},
    "out_dtype": {"out_dtype": torch.float32},
}


def test_masks_positions_and_options() -> None:
    for dtype in (torch.float64, torch.float32, torch.bfloat16):
        for name, options in OPTIONS.items():
            for scheme in (PLAIN, MIXED):
                try:
                    hold_options(options, scheme, dtype)
                except AssertionError as error:
                    raise AssertionError(f"{name} {dtype}: {error}") from error


def test_ragged_batches() -> None:
    queries, keys = torch.tensor([0, 1, 1, 40, TQ], dtype=torch.int32), torch.tensor([0, 5, 30, 100, TK], dtype=torch.int32)
    for dtype in (torch.float64, torch.bfloat16):
        for scheme in (PLAIN, MIXED):
            for causal in (False, True):
                hold_options({"causal": causal, "cu_seqlens": (queries, keys)}, scheme, dtype)
            hold_options({"causal": True, "cu_seqlens": keys.long()}, scheme, dtype, tokens=(TK, TK))


def test_lists_of_the_host_follow_the_tensors() -> None:
    q, k, v = (x.detach() for x in qkv(torch.float32))
    q, k, v = on(DEVICE, [q, k, v])
    lists = {"prefix": [3, 9], "key_mask": KEY_MASK.numpy(), "query_positions": AT.tolist(), "key_positions": OF.numpy()}
    tensors = on(DEVICE, {"prefix": torch.tensor([3, 9]), "key_mask": KEY_MASK, "query_positions": AT, "key_positions": OF})
    table = numbers(H, 32)
    got = phasor.attention(q, k, v, phasor.T5(table.numpy()), True, sinks=[0.0] * H, **lists)
    assert same_bits(got, phasor.attention(q, k, v, phasor.T5(table.to(DEVICE)), True, sinks=torch.zeros(H, device=DEVICE, dtype=torch.float64), **tensors))


def test_strides_and_few_axes() -> None:
    packed = numbers(TQ, H + 2 * HK, 2 * D, dtype=torch.bfloat16).to(DEVICE)
    q, k, v = packed[:, :H, :D], packed[:, H : H + HK, D:], packed[:, H + HK :, ::2]
    want = phasor.attention(*(x.contiguous() for x in (q, k, v)), phasor.Alibi(), True)
    got = phasor.attention(q, k, v, phasor.Alibi(), True)
    assert got.shape == (TQ, H, D) and (got - want).abs().max() <= 4 * UNIT[torch.bfloat16] * want.abs().max()  # perhaps by another kernel


# ---- Dropout and weights ----


def test_dropout_drops_what_the_cpu_drops() -> None:
    for dtype in (torch.float64, torch.float32, torch.float16):
        for seed in (11, (2**63 + 5, 7), torch.tensor([3, 4])):
            options = {"causal": True, "dropout": 0.3, "dropout_seed": seed}
            inputs = qkv(dtype)
            given = ([x.detach().double().requires_grad_() for x in inputs], inputs, on(DEVICE, inputs))  # the seed stays on the CPU
            exact, by_cpu, got = (results(lambda *x: phasor.attention(*x, return_lse=True, **options), xs, {}, dtype) for xs in given)  # noqa: B023
            hold(got, by_cpu, exact, dtype, torch.float64 if dtype == torch.float64 else torch.float32)


def test_weights_and_factors() -> None:
    q, k, _ = (x.detach() for x in qkv(torch.float32))
    options = {"causal": True, "dropout": 0.25, "dropout_seed": 5, "return_factors": True}
    for scheme in (None, [phasor.Alibi(), phasor.Rope(phasor.Rotary(D))]):
        for block in ({}, {"batch": 1, "queries": slice(3, 40), "heads": slice(1, 3)}):
            want, want_factors = phasor.attention_weights(q.double(), k.double(), scheme, **options, **block)
            got, factors = phasor.attention_weights(q.to(DEVICE), k.to(DEVICE), scheme, **options, **block)
            assert got.device.type == DEVICE and got.dtype == torch.float32 and same_bits(factors, want_factors.float())
            assert (got.cpu() - want).abs().max() < 2.0**-24 * (2 * D * 4 + TK)  # of a product of D numbers below 4, twice; a sum over keys
            assert torch.allclose(got.sum(-1).cpu(), torch.ones(()), atol=1e-5)


def test_a_seed_is_drawn_by_the_cpus_generator() -> None:
    q, k, v = on(DEVICE, [x.detach() for x in qkv(torch.float32)])
    outs = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        outs.append(phasor.attention(q, k, v, dropout=0.5))
    assert same_bits(outs[0], outs[1]) and not same_bits(outs[0], outs[2])


# ---- Parts ----


def test_parts_merge() -> None:
    for dtype in (torch.float64, torch.float32, torch.bfloat16):
        q, k, v = on(DEVICE, [x.detach() for x in qkv(dtype)])
        at, wide = torch.arange(TK - TQ, TK, device=DEVICE), torch.float64 if dtype == torch.float64 else torch.float32
        cuts = (0, 50, 51, TK)
        options = {"causal": True, "query_positions": at, "return_lse": True, "out_dtype": wide}
        parts = [phasor.attention(q, k[:, a:b], v[:, a:b], phasor.Alibi(), key_positions=a, **options) for a, b in zip(cuts, cuts[1:])]
        whole, whole_lse = phasor.attention(q, k, v, phasor.Alibi(), True, return_lse=True)
        out, lse = phasor.merge_attention(parts, dtype)
        assert out.device.type == DEVICE and out.dtype == dtype
        near = 64 * UNIT[wide] + 2 * UNIT[dtype]
        assert (out - whole).abs().max() < near * 4 and (lse - whole_lse).abs().max() < 64 * UNIT[wide] * 8
        learning = [(o.clone().requires_grad_(), s.clone().requires_grad_()) for o, s in parts]
        again = phasor.merge_attention(learning, dtype)
        assert (again[0] - out).abs().max() < near * 4
        again[0].float().sum().backward()
        assert all(o.grad.device.type == DEVICE for o, _ in learning)


def test_any_number_of_parts_merges() -> None:
    q, k, v = on(DEVICE, [x.detach() for x in qkv(torch.float32)])
    whole, whole_lse = phasor.attention(q, k, v, return_lse=True)
    for each in (1, 2, 50):  # 131 parts, 66, 3
        parts = [phasor.attention(q, k[:, n : n + each], v[:, n : n + each], return_lse=True) for n in range(0, TK, each)]
        out, lse = phasor.merge_attention(parts)
        assert (out - whole).abs().max() < 256 * UNIT[torch.float32] and (lse - whole_lse).abs().max() < 256 * UNIT[torch.float32], each


def test_rows_that_see_nothing() -> None:
    for sinks in (None, numbers(H)):
        q, k, v = on(DEVICE, qkv(torch.float32))
        given = None if sinks is None else sinks.to(DEVICE)
        mask = torch.zeros(B, TK, dtype=torch.bool, device=DEVICE)
        out, lse = phasor.attention(q, k, v, key_mask=mask, sinks=given, return_lse=True)
        assert not out.any() and (torch.isneginf(lse).all() if sinks is None else torch.equal(lse, given.expand_as(lse)))
        out.sum().backward()
        assert all(not x.grad.any() for x in (q, k, v))


def test_what_is_told_of_a_call() -> None:
    q, k, v = on(DEVICE, [x.detach() for x in qkv(torch.bfloat16)])
    told = phasor.explain_attention(q, k, v, phasor.Alibi(), True, query_positions=list(range(TQ)))
    assert told["words"] and told["workspace"] >= 0 and math.isfinite(told["operations"])


def test_inkling_trains_by_tensor_cores() -> None:
    """Features and rows in the dtype of the call, as they are given: nothing on the way to the kernels makes others of them."""
    for dtype in (torch.bfloat16, torch.float16):
        for width in (8, 16, 40):

            def scheme(x: dict[str, Tensor], dtype: torch.dtype = dtype) -> Any:
                return phasor.Inkling(*(x[name] if x[name].dtype == torch.float64 else x[name].to(dtype) for name in ("features", "table")))

            shapes = {"features": (B, TQ, H, width), "table": (width, 50)}
            hold_options({"causal": True}, (shapes, scheme), dtype)
            q, k, v, *given = on(DEVICE, [x.detach() for x in (*qkv(dtype), *(numbers(*shape) for shape in shapes.values()))])
            words = phasor.explain_attention(q, k, v, scheme(dict(zip(shapes, given))), True)["words"]
            assert not ON_GPU or "gradients by mma.sync" in words, words


def test_wrong_devices_are_refused_by_name() -> None:
    needs_gpu()
    q, k, v = on(DEVICE, [x.detach() for x in qkv(torch.float32)])
    table, mask = numbers(H, 32), KEY_MASK
    calls: dict[str, Any] = {
        "k": lambda: phasor.attention(q, k.cpu(), v),
        "v": lambda: phasor.attention(q, k, v.cpu()),
        "parameters of term 0": lambda: phasor.attention(q, k, v, phasor.T5(table)),
        "key_mask": lambda: phasor.attention(q, k, v, key_mask=mask),
        "query_positions": lambda: phasor.attention(q, k, v, query_positions=AT),
        "sinks": lambda: phasor.attention(q, k, v, sinks=torch.zeros(H)),
        "query_starts": lambda: phasor.attention(q[0], k[0], v[0], cu_seqlens=(torch.tensor([0, TQ]), torch.tensor([0, TK], device=DEVICE))),
        "out of part 1": lambda: phasor.merge_attention([(q, q[..., 0]), (q.cpu(), q[..., 0])]),
    }
    for name, call in calls.items():
        with raises(ValueError, f"{name} on cpu and .* on cuda:0, wanted one device"):
            call()
    with raises(ValueError, "dropout_seed is on cuda:0, wanted it on the CPU"):
        phasor.attention(q, k, v, dropout=0.5, dropout_seed=torch.tensor([1, 2], device=DEVICE))
    with raises(ValueError, "k is on cpu|key_mask is on cpu|wanted one device|on cuda:0"):
        phasor.attention_weights(q, k, key_mask=mask)
