# SPDX-License-Identifier: Apache-2.0
"""phasor.nn.Rotary and LearnedRotary: states, casts, gradients by frequencies and positions, compilation and export."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch

import phasor
import phasor.nn
from phasor._torch import words_of


def test_the_module_turns_as_the_rotary_does():
    rope, module = phasor.Rotary(8, base=5e5, pairing="interleaved"), phasor.nn.Rotary(8, base=5e5, pairing="interleaved")
    q, k, positions = torch.randn(2, 5, 3, 8), torch.randn(2, 5, 1, 8), torch.tensor([0, 10**9, 3, 7, 1])
    for direction in ("forward", "inverse", "transpose"):
        want = rope(q, k, positions, direction=direction)
        got = module(q, k, positions, direction=direction)
        written = module.apply_(q.clone(), k.clone(), positions, direction=direction)
        for a, b, c in zip(want, got, written):
            assert torch.equal(a, b) and torch.equal(a, c)
    assert torch.equal(module(q), rope(q))


def test_nothing_is_saved_and_no_cast_spoils_the_spec():
    module = phasor.nn.Rotary(8, scaling=phasor.Llama3Scaling())
    words = words_of(module.rope).clone()
    assert module.state_dict() == {} and list(module.parameters()) == []
    for cast in (lambda m: m.to(torch.bfloat16), lambda m: m.half(), lambda m: m.double(), lambda m: m.to_empty(device="cpu")):
        assert torch.equal(cast(module).words, words) and module.words.dtype == torch.int64
    meta = module.to("meta")
    assert meta.words.device.type == "meta"
    assert torch.equal(meta.to_empty(device="cpu").words, words)
    with torch.device("meta"):
        assert torch.equal(phasor.nn.Rotary(8, scaling=phasor.Llama3Scaling()).words, words)
    torch.nn.Module.load_state_dict(module, {}, strict=True)


def test_modules_copy_pickle_and_print():
    module = phasor.nn.Rotary(8, base=5e5)
    q = torch.randn(5, 3, 8)
    for other in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        assert torch.equal(other(q), module(q)) and torch.equal(other.words, module.words)
    assert repr(module) == "Rotary(head_dim=8, base=500000.0)"
    assert repr(phasor.nn.LearnedRotary(8)) == "LearnedRotary(head_dim=8, frequencies=(4,), pairing='half')"


def test_a_config_gives_the_module_of_a_layer():
    config = {"model_type": "llama", "hidden_size": 64, "num_attention_heads": 8, "num_hidden_layers": 2, "rope_theta": 5e5}
    module = phasor.nn.Rotary.from_config(config, layer=1)
    assert module.rope == phasor.Rotary.from_config(config, 1)
    assert phasor.nn.Rotary.from_spec(module.rope.spec).rope == module.rope


SPECS = [
    {},
    {"pairing": "interleaved", "output_pairing": "half", "rotary_width": 6, "rotary_offset": 1},
    {"sense": "clockwise", "unit": "turns"},
    {"axes": phasor.Axes(sections=(1, 3))},
]


@pytest.mark.parametrize("fields", SPECS)
@pytest.mark.parametrize("direction", ["forward", "transpose"])
def test_gradients_by_frequencies_and_positions(fields, direction):
    torch.manual_seed(3)
    axes = 2 if "axes" in fields else 1
    module = phasor.nn.LearnedRotary(8, frequencies=torch.rand(fields.get("rotary_width", 8) // 2, dtype=torch.float64), **fields)
    q, k = (torch.randn(2, 3, heads, 8, dtype=torch.float64, requires_grad=True) for heads in (3, 1))
    positions = (torch.rand(axes, 2, 3, dtype=torch.float64) * 9).requires_grad_()

    def turn(frequencies, q, k, positions):
        return torch.func.functional_call(module, {"frequencies": frequencies}, (q, k, positions), {"direction": direction})

    assert torch.autograd.gradcheck(turn, (module.frequencies, q, k, positions))


@pytest.mark.parametrize("heads", [1, 3])
def test_gradients_by_directions_of_heads(heads):
    torch.manual_seed(4)
    module = phasor.nn.LearnedRotary(8, frequencies=torch.randn(2, heads, 4, dtype=torch.float64))
    q = torch.randn(5, 3, 8, dtype=torch.float64, requires_grad=True)
    positions = (torch.randn(2, 1, 5, dtype=torch.float64) * 5).requires_grad_()

    def turn(frequencies, q, positions):
        return torch.func.functional_call(module, {"frequencies": frequencies}, (q, None, positions))

    assert torch.autograd.gradcheck(turn, (module.frequencies, q, positions))
    assert torch.equal(module(q, positions=positions), module.rotary()(q, positions=positions))


def test_positions_of_a_fixed_spec_have_gradients():
    rope = phasor.Rotary(8, scaling=phasor.YarnScaling(factor=4, original_length=64), sense="clockwise")
    q = torch.randn(5, 3, 8, dtype=torch.float64, requires_grad=True)
    positions = (torch.rand(5, dtype=torch.float64) * 50).requires_grad_()
    for inverse in (False, True):
        assert torch.autograd.gradcheck(lambda q, p, inverse=inverse: rope(q, q * 2, p, inverse=inverse), (q, positions))
    written = rope.apply_(q * 1, positions=positions)
    assert torch.autograd.grad(written.sum(), positions)[0].abs().max() > 0


def test_second_derivatives_by_frequencies_say_that_they_are_not_there():
    module = phasor.nn.LearnedRotary(8)
    q = torch.randn(5, 3, 8, requires_grad=True)
    (first,) = torch.autograd.grad(module(q).pow(3).sum(), module.frequencies, create_graph=True)
    with pytest.raises(NotImplementedError, match="second derivatives"):
        first.sum().backward()
    (by_q,) = torch.autograd.grad(module(q).pow(3).sum(), q, create_graph=True)
    by_q.sum().backward()
    assert q.grad is not None


def test_learned_frequencies_train_compile_and_are_not_cast_to_16_bits():
    torch.manual_seed(5)
    module = phasor.nn.LearnedRotary(8).to(torch.bfloat16)
    assert list(module.state_dict()) == ["frequencies"] and module.frequencies.dtype == torch.float32
    q, target = torch.randn(7, 3, 8), torch.randn(7, 3, 8)
    compiled = torch.compile(module, backend="aot_eager", fullgraph=True)
    optimiser = torch.optim.SGD(module.parameters(), lr=1e-3)
    losses = []
    for _ in range(4):
        optimiser.zero_grad()
        loss = (compiled(q) - target).square().sum()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses == sorted(losses, reverse=True) and losses[-1] < losses[0]
    assert torch.equal(module(q), module.rotary()(q))


def test_opcheck_accepts_the_learned_operators():
    frequencies = torch.rand(2, 3, 4, dtype=torch.float64)
    module = phasor.nn.LearnedRotary(8, frequencies=frequencies)
    x = torch.randn(5, 3, 8, dtype=torch.float64)
    rest = (module.words, frequencies.clone().requires_grad_(), torch.rand(2, 1, 5, dtype=torch.float64).requires_grad_(), 0, 0)
    torch.library.opcheck(torch.ops.phasor.learned_rotary.default, (x.clone().requires_grad_(), *rest))
    torch.library.opcheck(torch.ops.phasor.learned_rotary_gradient.default, (x, 2 * x, module.words, frequencies, rest[2].detach(), 0, 0))


def test_bad_learned_rotaries_are_refused():
    with pytest.raises(ValueError, match="frequencies and scaling"):
        phasor.nn.LearnedRotary(8, frequencies=torch.ones(4), scaling=phasor.LinearScaling(factor=2))
    with pytest.raises(ValueError, match=r"\(2, 4\)"):
        phasor.nn.LearnedRotary(8, frequencies=torch.ones(2, 4))
    with pytest.raises(TypeError, match="bfloat16"):
        phasor.nn.LearnedRotary(8, frequencies=torch.ones(4, dtype=torch.bfloat16))
    with pytest.raises(ValueError, match="frequencies"):
        phasor.nn.LearnedRotary(8, frequencies=torch.ones(3))
    module = phasor.nn.LearnedRotary(8, frequencies=torch.ones(2, 3, 4))
    for q, kind in (
        (torch.randn(5, 2, 8), ValueError),
        (torch.randn(5, 3, 8).int(), TypeError),
        (torch.randn(5, 3, 16)[..., ::2], ValueError),
    ):
        with pytest.raises(kind):
            module(q, positions=torch.zeros(2, 1, 5, dtype=torch.int64))


def test_the_module_is_exported_with_its_words(tmp_path):
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.rope = phasor.nn.Rotary(8)
            self.learned = phasor.nn.LearnedRotary(8)

        def forward(self, q, positions):
            return self.learned(self.rope(q, positions=positions), positions=positions)

    model, q, positions = Model(), torch.randn(2, 7, 3, 8), torch.arange(7)
    program = torch.export.export(model, (q, positions))
    torch.export.save(program, tmp_path / "model.pt2")
    loaded = torch.export.load(tmp_path / "model.pt2")
    assert torch.equal(loaded.module()(q, positions), model(q, positions))
    assert "rope.words" not in loaded.state_dict


def test_tangents_and_nested_gradients_of_learned_rotations():
    module = phasor.nn.LearnedRotary(8)
    q, along = torch.randn(2, 3, 1, 8, dtype=torch.float64), torch.randn(2, 3, 1, 8, dtype=torch.float64)
    assert torch.equal(torch.func.jvp(module, (q,), (along,))[1], module(along))
    frequencies = module.frequencies.detach()

    def turned(frequencies):
        return torch.func.functional_call(module, {"frequencies": frequencies}, (q,)).mul(along).sum()

    turned(module.frequencies).backward()
    assert torch.equal(torch.func.grad(turned)(frequencies), module.frequencies.grad)
    with pytest.raises(NotImplementedError, match="forward-mode"):
        torch.func.jvp(turned, (frequencies,), (frequencies,))
    with pytest.raises(NotImplementedError, match="second derivatives"):
        torch.func.grad(lambda f: torch.func.grad(turned)(f).sum())(frequencies)


def test_positions_learn_under_transforms_too():
    rope, q, along = phasor.Rotary(8), torch.randn(2, 3, 1, 8, dtype=torch.float64), torch.randn(2, 3, 1, 8, dtype=torch.float64)
    positions = torch.tensor([0.5, 3.0, 10.0], dtype=torch.float64, requires_grad=True)

    def turned(positions):
        return rope(q, positions=positions).mul(along).sum()

    turned(positions).backward()
    assert torch.equal(torch.func.grad(turned)(positions.detach()), positions.grad)


def test_learned_frequencies_keep_the_amplitude_of_their_scaling():
    scaling = phasor.YarnScaling(factor=4, original_length=1024)
    rope, module = phasor.Rotary(8, scaling=scaling), phasor.nn.LearnedRotary(8, scaling=scaling)
    q = torch.randn(2, 5, 3, 8)
    assert rope.amplitude > 1.1 and module.rope.amplitude == rope.amplitude and module.rotary().amplitude == rope.amplitude
    for direction in ("forward", "inverse", "transpose"):
        torch.testing.assert_close(module(q, positions=7, direction=direction), rope(q, positions=7, direction=direction))
    assert torch.equal(module(q), module.rotary()(q))
    with pytest.raises(NotImplementedError, match="amplitude"):
        torch.ops.phasor.learned_rotary(q, words_of(rope), torch.rand(1, 3, 4), None, 0, 0)


def test_learned_frequencies_are_made_on_the_meta_device():
    with torch.device("meta"):
        module = phasor.nn.LearnedRotary(8, base=5e5)
        mixed = phasor.nn.LearnedRotary(8, frequencies=torch.empty(2, 3, 4))
    assert module.frequencies.device.type == "meta" and mixed(torch.empty(2, 5, 3, 8, device="meta")).shape == (2, 5, 3, 8)
    real = phasor.nn.LearnedRotary(8, base=5e5)
    assert module.rope.frequencies.tolist() == phasor.Rotary(8, base=5e5).frequencies.tolist()
    module.to_empty(device="cpu").load_state_dict(real.state_dict())
    q = torch.randn(5, 3, 8)
    assert torch.equal(module(q, positions=9), real(q, positions=9))
