# SPDX-License-Identifier: Apache-2.0
"""phasor.attention as PyTorch's: compiled without recompiling, registered operators, gradcheck, what is refused, fake and meta tensors."""

from __future__ import annotations

import pytest
import torch
from attention_oracle import B, CASES, D, H, TK, TQ, Mask, qkv
from torch._dynamo.testing import CompileCounterWithBackend
from torch._subclasses.fake_tensor import FakeTensorMode

import phasor

LEARNED = [name for name, case in CASES.items() if case.shapes]


@pytest.mark.parametrize("name", CASES)
def test_gradcheck_accepts_every_scheme(name):
    case = CASES[name]
    tensors = case.tensors()
    inputs = qkv(*case.tokens)

    def attend(*given):
        x = dict(zip(tensors, given[3:]))
        return phasor.attention(*given[:3], scheme=case.scheme(x), return_lse=True, **Mask(**case.mask).options())

    assert torch.autograd.gradcheck(attend, (*inputs, *tensors.values()), fast_mode=True)


@pytest.mark.parametrize("name", LEARNED)
def test_only_the_table_may_require_a_gradient(name):
    case = CASES[name]
    options = Mask(**case.mask).options()
    both, alone = case.tensors(), case.tensors()
    weights = torch.rand(B, case.tokens[0], H, D, dtype=torch.float64)
    (phasor.attention(*qkv(*case.tokens), scheme=case.scheme(both), **options) * weights).sum().backward()
    frozen = [x.detach() for x in qkv(*case.tokens)]
    (phasor.attention(*frozen, scheme=case.scheme(alone), **options) * weights).sum().backward()
    for key in both:
        assert torch.equal(alone[key].grad, both[key].grad), key


@pytest.mark.parametrize("name", LEARNED)
def test_tables_may_be_frozen(name):
    case = CASES[name]
    options = Mask(**case.mask).options()
    x = {key: t.detach() for key, t in case.tensors().items()}
    learning, frozen = qkv(*case.tokens), qkv(*case.tokens)
    phasor.attention(*learning, scheme=case.scheme(case.tensors()), **options).sin().sum().backward()
    phasor.attention(*frozen, scheme=case.scheme(x), **options).sin().sum().backward()
    assert all(torch.equal(a.grad, b.grad) for a, b in zip(learning, frozen))


def _counted(function):
    torch._dynamo.reset()
    counter = CompileCounterWithBackend("aot_eager")
    return torch.compile(function, backend=counter, fullgraph=True), counter


COMPILED = (
    "alibi",
    "alibi_learned",
    "kerple",
    "t5",
    "wavlm",
    "dense",
    "shaw_values",
    "xlnet",
    "deberta",
    "inkling",
    "cope",
    "grid",
    "rerope",
    "fire",
    "several",
)


@pytest.mark.parametrize("name", COMPILED)
def test_compiled_calls_build_their_scheme_inside_and_do_not_compile_again(name):
    case = CASES[name]
    options = Mask(**case.mask).options()
    keys = list(case.shapes)

    def attend(q, k, v, *tensors):
        return phasor.attention(q, k, v, scheme=case.scheme(dict(zip(keys, tensors))), return_lse=True, **options)

    compiled, counter = _counted(attend)
    for seed in (1, 2):
        results = []
        for function in (attend, compiled):
            inputs = (*qkv(*case.tokens, seed=seed), *case.tensors(seed).values())
            out, lse = function(*inputs)
            (out.sin().sum() + lse.sum()).backward()
            results.append([out, lse, *(x.grad for x in inputs)])
        assert all(torch.equal(a, b) for a, b in zip(*results))
    assert counter.frame_count == 1


def test_lengths_may_change_without_compiling_again_for_each():
    table = torch.randn(H, 32, requires_grad=True)
    u, v_shift = torch.randn(H, D, requires_grad=True), torch.randn(H, D, requires_grad=True)
    project = torch.randn(2 * D, H, D, requires_grad=True)

    def attend(q, k, v, rows):
        xl = phasor.TransformerXL(torch.einsum("tm,mhd->thd", rows, project), q.shape[1] - 1, u, v_shift)
        return phasor.attention(q, k, v, scheme=[xl, phasor.T5(table)], window=(q.shape[1], None))

    compiled, counter = _counted(attend)
    for length in (5, 9, 17, 33, 40):
        inputs = [x.detach() for x in qkv(length, length, torch.float32)]
        rows = torch.randn(2 * length - 1, 2 * D)
        torch.testing.assert_close(compiled(*inputs, rows), attend(*inputs, rows), atol=0, rtol=0)
    assert counter.frame_count <= 2  # one of a given length, one of any


def test_inductor_compiles_it():
    torch._dynamo.reset()
    table = torch.randn(7, D, requires_grad=True)

    def attend(q, k, v):
        return phasor.attention(q, k, v, scheme=[phasor.Shaw(table, left=3, right=3), phasor.Alibi()], causal=True)

    q, k, v = qkv(dtype=torch.float32)
    out = torch.compile(attend, fullgraph=True)(q, k, v)
    torch.testing.assert_close(out, attend(q, k, v), atol=0, rtol=0)
    got = torch.autograd.grad(out.sin().sum(), (q, table))
    want = torch.autograd.grad(attend(q, k, v).sin().sum(), (q, table))
    assert all(torch.equal(a, b) for a, b in zip(got, want))


def _operands(name):
    from phasor._attention import call_of
    from phasor._torch.attention.text import encoded

    case = CASES[name]
    q, k, v = qkv(*case.tokens)
    mask = Mask(**case.mask)
    return (q, k, v, *encoded(call_of(H, case.scheme(case.tensors()), mask.causal, None, {})))


@pytest.mark.parametrize("name", ["none", "shaw_values", "xlnet", "several"])
def test_opcheck_accepts_the_operators(name):
    operands = _operands(name)
    torch.library.opcheck(torch.ops.phasor.attention.default, operands)
    out, lse = torch.ops.phasor.attention(*operands)
    wanted = [x.requires_grad for x in (*operands[:3], *operands[3])]
    detached = [x.detach() if isinstance(x, torch.Tensor) else [y.detach() for y in x] if n == 3 else x for n, x in enumerate(operands)]
    tests = ("test_schema", "test_faketensor", "test_aot_dispatch_dynamic")
    saved = (out.detach(), lse.detach(), torch.rand_like(out), torch.rand_like(lse), wanted)
    torch.library.opcheck(torch.ops.phasor.attention_backward.default, (*detached, *saved), test_utils=tests)


def test_an_order_of_sums_reaches_the_core(monkeypatch):
    seen = []
    backward = phasor._core.attention_backward
    monkeypatch.setattr(phasor._core, "attention_backward", lambda *given: (seen.append(given[-1]), backward(*given))[1])
    for options in ({}, {"deterministic": True}, {"deterministic": False}):
        phasor.attention(*qkv(TQ, TK), causal=True, **options).sum().backward()
    torch.use_deterministic_algorithms(True)
    try:
        phasor.attention(*qkv(TQ, TK), causal=True, deterministic=False).sum().backward()
    finally:
        torch.use_deterministic_algorithms(False)
    assert seen == [True, True, False, True]


def test_a_second_gradient_is_refused():
    q, k, v = qkv()
    (gradient,) = torch.autograd.grad(phasor.attention(q, k, v).sin().sum(), q, create_graph=True)
    with pytest.raises(NotImplementedError, match="gradient of its gradient"):
        gradient.sum().backward()


def test_no_gradient_is_kept_where_none_is_wanted():
    q, k, v = qkv()
    with torch.no_grad():
        assert not phasor.attention(q, k, v).requires_grad
    with torch.inference_mode():
        assert phasor.attention(q, k, v, scheme=phasor.Alibi()).is_inference()
    assert phasor.attention(q, k, v).requires_grad


@pytest.mark.parametrize("compiled", [False, True])
def test_autocast_casts_as_it_does_pytorchs_attention(compiled):
    q, k, v = qkv(dtype=torch.float32)
    table = torch.randn(H, 32, requires_grad=True)

    def attend(q, k, v):
        return phasor.attention(q, k, v.to(torch.bfloat16), scheme=phasor.T5(table))

    function = _counted(attend)[0] if compiled else attend
    with torch.autocast("cpu", torch.bfloat16):
        out = function(q, k, v)
        double = phasor.attention(*(x.double() for x in (q, k, v)))
    assert out.dtype == torch.bfloat16 and double.dtype == torch.float64
    assert torch.equal(out, phasor.attention(q.bfloat16(), k.bfloat16(), v.bfloat16(), scheme=phasor.T5(table)))
    out.float().sum().backward()
    assert q.grad.dtype == torch.float32 and table.grad.dtype == torch.float32


@pytest.mark.parametrize("compiled", [False, True])
def test_autocast_casts_rows_that_are_multiplied_and_no_bias(compiled):
    q, k, v = (x.to(torch.bfloat16) for x in qkv(dtype=torch.float32))
    rows, values, dense = torch.randn(9, D), torch.randn(9, v.shape[-1]), torch.randn(1, H, TQ, TK)
    rows.requires_grad_()

    def attend(rows, values):
        return phasor.attention(q, k, v, scheme=[phasor.Shaw(rows, values, left=4, right=4), phasor.Dense(dense)])

    function = _counted(attend)[0] if compiled else attend
    with torch.autocast("cpu", torch.bfloat16):
        out = function(rows, values)
    assert torch.equal(out, attend(rows.bfloat16(), values.bfloat16())) and not torch.equal(out, attend(rows, values))
    out.float().sum().backward()
    assert rows.grad.dtype == torch.float32


def test_autocast_leaves_numbers_of_a_grid():
    x, table = torch.randn(1, 12, H, D).bfloat16(), torch.randn(H, 5 * 7)
    plain = phasor.attention(x, x, x, scheme=phasor.Grid(table, (3, 4)), out_dtype=torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(phasor.attention(x, x, x, scheme=phasor.Grid(table, (3, 4)), out_dtype=torch.float32), plain)


def test_fake_and_meta_tensors_have_shapes_alone():
    with FakeTensorMode():
        q, k, v = torch.empty(B, TQ, H, D), torch.empty(B, TK, 2, D), torch.empty(B, TK, 2, 3)
        out, lse = phasor.attention(q, k, v, scheme=phasor.T5(torch.empty(H, 32)), return_lse=True)
    assert out.shape == (B, TQ, H, 3) and lse.shape == (B, TQ, H) and lse.dtype == torch.float32
    q, k, v = (x.detach().to("meta").requires_grad_() for x in qkv())
    x = {key: t.detach().to("meta").requires_grad_() for key, t in CASES["shaw_values"].tensors().items()}
    out = phasor.attention(q, k, v, scheme=CASES["shaw_values"].scheme(x))
    out.sum().backward()
    assert out.is_meta and q.grad.shape == q.shape and x["k"].grad.shape == x["k"].shape


def test_an_exported_program_holds_the_scheme():
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.table = torch.nn.Parameter(torch.randn(H, 32))
            self.rope = phasor.Rotary(head_dim=D)

        def forward(self, q, k, v):
            return phasor.attention(q, k, v, scheme=[phasor.T5(self.table), phasor.Rope(self.rope)], causal=True)

    model = Model()
    inputs = [x.detach() for x in qkv(dtype=torch.float32)]
    program = torch.export.export(model, tuple(inputs))
    assert torch.equal(program.module()(*inputs), model(*inputs))


def test_lists_and_numpy_arrays_do_for_what_does_not_learn():
    q, k, v = (x.detach() for x in qkv())
    want = phasor.attention(q, k, v, causal=True, query_positions=torch.tensor([1, 2, 3, 4, 5]), key_positions=torch.arange(TK))
    for at, of in (([1, 2, 3, 4, 5], list(range(TK))), (1, 0), (torch.tensor([1, 2, 3, 4, 5]).numpy(), 0)):
        assert torch.equal(phasor.attention(q, k, v, causal=True, query_positions=at, key_positions=of), want)
    mask = torch.tensor([[1, 0, 1, 1, 1, 0, 1]] * B, dtype=torch.bool)
    table = CASES["t5"].tensors()["table"].detach()
    want = phasor.attention(q, k, v, scheme=phasor.T5(table), key_mask=mask)
    assert torch.equal(phasor.attention(q, k, v, scheme=phasor.T5(table.numpy()), key_mask=mask.numpy()), want)


def test_results_do_not_depend_on_threads():
    q, k, v = (x.detach() for x in qkv(300, 300, torch.float32))
    x = CASES["several"].tensors(dtype=torch.float32)
    results = []
    for threads in (1, 2, 3):
        phasor.set_num_threads(threads)
        inputs = [t.clone().requires_grad_() for t in (q, k, v)]
        out = phasor.attention(*inputs, scheme=CASES["several"].scheme(x))
        results.append([out, *torch.autograd.grad(out.sin().sum(), (*inputs, *x.values()))])
    assert all(torch.equal(a, b) for other in results[1:] for a, b in zip(results[0], other))


def test_a_spec_that_would_drop_a_gradient_is_refused():
    q, k, v = qkv()
    slopes = torch.rand(H, dtype=torch.float64, requires_grad=True)
    with pytest.raises(ValueError, match="Alibi's slopes require a gradient"):
        phasor.attention(q, k, v, phasor.Alibi(slopes=slopes))
    fixed = phasor.attention(q, k, v, phasor.Alibi(slopes=slopes.detach()))
    assert torch.equal(phasor.attention(q, k, v, phasor.BiasTerm(phasor.Alibi(slopes=slopes), slopes)), fixed)
    assert torch.equal(phasor.attention(q, k, v, phasor.Bias(phasor.Alibi(heads=H, slopes=slopes.detach()))), fixed)


def test_merging_rows_that_see_nothing_has_gradients_of_zero():
    q, k, v = qkv()
    at = torch.arange(TQ) - 2  # the first two queries come before every key
    options = {"causal": True, "return_lse": True, "query_positions": at}
    parts = [phasor.attention(q, k[:, n : n + 1], v[:, n : n + 1], key_positions=n, **options) for n in range(3)]
    out, lse = phasor.merge_attention(parts)
    whole, whole_lse = phasor.attention(q, k[:, :3], v[:, :3], key_positions=0, **options)
    torch.testing.assert_close(out, whole, atol=1e-13, rtol=0)
    torch.testing.assert_close(lse, whole_lse, atol=1e-13, rtol=0)
    seen = lse[:, 2:].sum() + out.sin().sum()
    want = torch.autograd.grad(whole_lse[:, 2:].sum() + whole.sin().sum(), (q, k, v))
    for a, b in zip(torch.autograd.grad(seen, (q, k, v)), want):
        torch.testing.assert_close(a, b, atol=1e-12, rtol=0)
