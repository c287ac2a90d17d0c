# SPDX-License-Identifier: Apache-2.0
"""Functions that rotate the probes as phasor does and branch on something else: patched models keep their bits, and the report says why."""

from __future__ import annotations

import contextlib
import warnings

import pytest
import torch
from torch.utils.checkpoint import checkpoint

import phasor.hf
from hf_zoo.compare import Count
from phasor.hf import _replace
from phasor.hf._first_calls import FirstCall, FirstCalls
from phasor.hf._patch import to_probe
from phasor.hf._plans import plan_for
from phasor.hf._recognise import Rotation, recognise
from phasor.hf._replace import replacement


def halves(x):
    return torch.cat((-x[..., x.shape[-1] // 2 :], x[..., : x.shape[-1] // 2]), dim=-1)


def plain(q, k, cos, sin):
    return q * cos + halves(q) * sin, k * cos + halves(k) * sin


def other(q, k, cos, sin):
    return (q * cos + halves(q) * sin) * (1 + 2 * torch.finfo(q.dtype).eps), k * cos + halves(k) * sin


def branching(when):
    """A rotation that goes another way where `when` says so."""

    def rotary(q, k, cos, sin):
        return (other if when(q) else plain)(q, k, cos, sin)

    return rotary


def tensors(tokens=6, width=8, dtype=torch.float32):
    made = torch.Generator().manual_seed(tokens + width)
    q, k = (torch.randn(1, heads, tokens, width, generator=made).to(dtype) for heads in (2, 1))
    return q, k, *(torch.randn(tokens, width, generator=made).to(dtype) for _ in range(2))


IN_THE_PROBES = {
    "longer than 7": lambda q: q.shape[-2] > 7,
    "one token": lambda q: q.shape[-2] == 1,
    "wider than 32": lambda q: q.shape[-1] > 32,
    "narrower than 10": lambda q: q.shape[-1] < 10,
    "width 256": lambda q: q.shape[-1] == 256,
    "longer than 256": lambda q: q.shape[-2] > 256,
}


@pytest.mark.parametrize("name", IN_THE_PROBES)
def test_a_branch_on_length_or_width_among_the_probes_is_no_rotation(name):
    found = recognise(branching(IN_THE_PROBES[name]))
    assert isinstance(found, str) and "but otherwise" in found and "tokens of width" in found


# name: when it goes another way, a call of that kind
BEYOND = {
    "longer than 1000": (lambda q: q.shape[-2] > 1000, tensors(1201)),
    "width 96": (lambda q: q.shape[-1] == 96, tensors(width=96)),
    "float64": (lambda q: q.dtype == torch.float64, tensors(dtype=torch.float64)),
    "many heads": (lambda q: q.shape[1] > 500, (torch.randn(1, 600, 6, 8), *tensors()[1:])),
}


@pytest.mark.parametrize("name", BEYOND)
def test_a_branch_beyond_the_probes_falls_back_at_its_first_call(name):
    when, special = BEYOND[name]
    function = branching(when)
    module = module_of(function)
    report = phasor.hf.patch(module)
    assert report.rotations and not report.fell_back
    usual = tensors()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert same(module(*usual), function(*usual))
    with pytest.warns(UserWarning, match="^phasor.hf: rotary: .* not a call with q"), Count() as count:
        assert same(module(*special), function(*special))
    assert (count.ours, count.own) == (0, 1)
    (entry,) = report.fell_back
    assert (entry.where, entry.what) == ("a_model", "rotary") and "such calls go to the model's own function" in entry.how and "fell back" in str(report)
    with Count() as count:
        assert same(module(*special), function(*special)) and same(module(*usual), function(*usual))
    assert (count.ours, count.own) == (1, 1)


def same(some, others):
    return all(a.dtype == b.dtype and torch.equal(a, b) for a, b in zip(some, others, strict=True))


def module_of(function, name="a_model", called="rotary"):
    scope = {"rotary": function, "torch": torch, "__name__": name}
    exec("def helper(*args):\n    return rotary(*args)", scope)
    exec(f"class Model(torch.nn.Module):\n    def forward(self, *args):\n        return {called}(*args)", scope)
    return scope["Model"]()


LONG = branching(lambda q: q.shape[-2] > 1000)


def test_a_rotation_that_is_called_through_a_helper_falls_back_under_its_own_name():
    module = module_of(LONG, called="helper")
    report = phasor.hf.patch(module)
    assert [entry.what for entry in report.rotations] == ["helper"] and not report.fell_back
    with pytest.warns(UserWarning):
        module(*tensors(1201))
    assert [(entry.where, entry.what, entry.modules) for entry in report.fell_back] == [("a_model", "rotary", 1)]


def test_of_two_functions_with_one_name_the_one_that_falls_back_is_listed():
    model = torch.nn.ModuleList([module_of(LONG), module_of(branching(lambda q: False), "b_model")])
    report = phasor.hf.patch(model)
    with pytest.warns(UserWarning):
        for module in model:
            module(*tensors(1201))
    assert [(entry.where, entry.what) for entry in report.fell_back] == [("a_model", "rotary")]


@pytest.mark.parametrize("tokens", [6, 1201])
def test_a_checkpointed_call_is_compared_and_saves_what_its_second_run_saves(tokens):
    """At 1201 tokens the answers differ: the call is the model's own function's, in both runs."""
    module, given = module_of(LONG), tensors(tokens)
    assert phasor.hf.patch(module).rotations
    gradients = []
    for function in (LONG, module):
        q, k = (t.clone().requires_grad_() for t in given[:2])
        with Count() as count, pytest.warns(UserWarning) if function is module and tokens > 1000 else contextlib.nullcontext():
            turned = checkpoint(function, q, k, *given[2:], use_reentrant=False)
            gradients.append(torch.autograd.grad([t.sin().sum() for t in turned], (q, k)))
    assert (count.ours > 0, count.own > 0) == (tokens == 6, tokens > 1000) and same(*gradients)


def test_where_hooks_of_saved_tensors_are_forbidden_calls_are_compared_all_the_same():
    ours, (q, k, *tables) = replacement(plain, recognise(plain)), tensors()
    with torch.autograd.graph.disable_saved_tensors_hooks("no hooks"), Count() as count:
        assert same(ours(q.requires_grad_(), k, *tables), plain(q, k, *tables))
    assert count.ours == 1


class Mode(torch.nn.Module):
    """A method that rotates, and does so in another way in training or without gradients."""

    def __init__(self, by):
        super().__init__()
        self.by = by
        self.calls = 0
        self.register_buffer("seen", torch.zeros(()))

    def apply_rotary(self, q, k, cos, sin):
        self.calls += 1
        self.seen += 1
        special = self.training if self.by == "training" else torch.is_grad_enabled()
        return (other if special else plain)(q, k, cos, sin)

    def forward(self, *args):
        return self.apply_rotary(*args)


@pytest.mark.parametrize("by", ["training", "gradients"])
def test_a_branch_on_the_modules_mode_or_on_gradients_falls_back(by):
    module = Mode(by).eval()
    report = phasor.hf.patch(module)
    assert report.rotations
    with torch.no_grad():
        assert same(module(*tensors()), plain(*tensors())) and not report.fell_back
    if by == "training":
        module.train()
    with pytest.warns(UserWarning), torch.set_grad_enabled(by == "gradients"):
        assert same(module(*tensors()), other(*tensors()))
    assert len(report.fell_back) == 1
    module.eval()
    with Count() as count, torch.no_grad():
        assert same(module(*tensors()), plain(*tensors()))
    assert count.ours == 1


def test_the_module_that_is_patched_is_not_the_one_that_is_probed():
    module = Mode("training").eval()
    module.weight = torch.nn.Parameter(torch.ones(3))
    module.register_forward_hook(lambda *_: pytest.fail("a probe called a hook"))
    report = phasor.hf.patch(module)
    assert report.rotations and module.calls == 0 and module.seen == 0
    twin = to_probe(module)
    assert twin.weight is module.weight and twin.seen is not module.seen and not twin._forward_hooks


def test_a_module_that_cannot_be_copied_is_left_and_reported():
    class Stubborn(Mode):
        def __deepcopy__(self, _):
            raise RuntimeError("no")

    (left,) = phasor.hf.patch(Stubborn("training").eval()).left
    assert left.what == "apply_rotary" and "cannot be copied to be tried out (RuntimeError)" in left.how


@pytest.mark.parametrize("gradients", [False, True])
@pytest.mark.parametrize("changed", range(4))
def test_a_function_that_changes_its_arguments_falls_back(changed, gradients):
    def rotary(q, k, cos, sin):
        turned = plain(q, k, cos, sin)
        if q.shape[-2] > 1000:
            (q, k, cos, sin)[changed].zero_()
        return turned

    ours = replacement(rotary, recognise(rotary))
    given = tensors(1500)
    for warned in (pytest.warns(UserWarning), contextlib.nullcontext()):
        args = [t.clone() for t in given]
        with warned, torch.set_grad_enabled(gradients):
            assert same(ours(*args), plain(*given))
        assert (args[changed] == 0).all()  # the model's own doing
        assert same(args[:changed] + args[changed + 1 :], given[:changed] + given[changed + 1 :])


def test_a_kind_of_call_is_compared_once():
    calls = []

    def rotary(q, k, cos, sin):
        calls.append(tuple(q.shape))
        return plain(q, k, cos, sin)

    ours = replacement(rotary, recognise(rotary))
    calls.clear()
    for tokens in (6, 6, 7, 5):  # of one kind: 4 to 7 tokens
        assert same(ours(*tensors(tokens)), plain(*tensors(tokens)))
    assert calls == [(1, 2, 6, 8)]
    ours(*tensors(8))
    ours(*tensors(6, dtype=torch.bfloat16))
    assert len(calls) == 3


def test_plans_that_another_thread_clears_are_made_again(monkeypatch):
    class Cleared(_replace.Plans):
        def __contains__(self, key):
            return super().__contains__(key) | bool(self.clear())

    found, given = recognise(plain), tensors()
    plans = Cleared(FirstCalls("plain"))
    first = _replace.turned(found, plans, given, {})
    assert isinstance(first, FirstCall) and same(first.compared(lambda _: plain(*given)), plain(*given))
    assert same(_replace.turned(found, plans, given, {}), plain(*given))

    def clearing(*args):
        plans.clear()
        return plan_for(*args)

    monkeypatch.setattr(_replace, "plan_for", clearing)
    for tokens in (6, 7, 40):  # a kind that is known, and one that is not
        got = _replace.turned(found, plans, tensors(tokens), {})
        assert isinstance(got, FirstCall) if tokens == 40 else same(got, plain(*tensors(tokens)))


def test_values_that_are_no_numbers_are_no_difference():
    ours = replacement(plain, recognise(plain))
    q, k, cos, sin = tensors()
    q[0, 0, 0, 0] = torch.nan
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):
            assert torch.equal(ours(q, k, cos, sin)[0].nan_to_num(7), plain(q, k, cos, sin)[0].nan_to_num(7))


def test_a_transform_or_a_fake_call_compares_nothing_and_leaves_that_to_a_later_call():
    calls = []

    def rotary(q, k, cos, sin):
        calls.append(1)
        return plain(q, k, cos, sin)

    found = recognise(rotary)
    assert isinstance(found, Rotation)
    ours = replacement(rotary, found)
    calls.clear()
    q, k, cos, sin = tensors()
    mapped = torch.func.vmap(lambda q, k: ours(q, k, cos, sin))(torch.stack((q, q)), torch.stack((k, k)))
    assert torch.equal(mapped[0][1], plain(q, k, cos, sin)[0]) and len(calls) <= 1
    calls.clear()
    ours(q, k, cos, sin)
    assert calls == [1]


def test_a_compiled_model_goes_to_its_own_function_once_a_difference_was_seen(monkeypatch):
    """What a compiler would see; compiled models themselves are in test_hf_patch.py."""
    function = branching(lambda q: q.shape[-2] > 1000)
    module = module_of(function)
    phasor.hf.patch(module)
    monkeypatch.setattr(_replace, "compiling", lambda: True)
    with Count() as count:
        assert same(module(*tensors()), function(*tensors()))
    assert count.ours == 1
    monkeypatch.undo()
    with pytest.warns(UserWarning):
        module(*tensors(1201))
    monkeypatch.setattr(_replace, "compiling", lambda: True)
    with Count() as count:
        assert same(module(*tensors(1201)), function(*tensors(1201)))
    assert count.own == 1
