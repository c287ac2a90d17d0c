# SPDX-License-Identifier: Apache-2.0
"""Rotations in files: every kind in one program with open batch and length, each held to PyTorch's call and to the formula in float64."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import onnx
import pytest
import torch
from onnx_run import ROUNDING, File, pair_sums, rotation_bound

import phasor
import phasor.onnx

LENGTH, WIDTH, DYNAMIC = 64, 16, torch.export.Dim.DYNAMIC
SHAPES = [(2, 5), (1, 1), (3, 37), (1, LENGTH)]  # batch, tokens; the file was made with the first
YARN = phasor.YarnScaling(4.0, 16)
FAR = torch.tensor([-5, 10**9, 2**40 + 1])


@dataclass(frozen=True)
class Case:
    """A rotary encoding, and the inputs of the call: names of tensors and of positions."""

    rope: phasor.Rotary
    positions: str | int | None = "positions"
    tensors: tuple[str, ...] = ("q", "k")
    inverse: bool = False


CASES = {
    "half": Case(phasor.Rotary(WIDTH)),
    "half again": Case(phasor.Rotary(WIDTH)),
    "interleaved": Case(phasor.Rotary(WIDTH, pairing="interleaved", base=500.0)),
    "partial": Case(phasor.Rotary(WIDTH, rotary_width=6)),
    "partial interleaved": Case(phasor.Rotary(WIDTH, rotary_width=10, pairing="interleaved")),
    "behind others": Case(phasor.Rotary(WIDTH, rotary_width=6, rotary_offset=4)),
    "at the end": Case(phasor.Rotary(WIDTH, rotary_width=6, rotary_offset=10, pairing="interleaved")),
    "yarn": Case(phasor.Rotary(WIDTH, scaling=YARN)),
    "yarn inverse": Case(phasor.Rotary(WIDTH, scaling=YARN), inverse=True),
    "clockwise": Case(phasor.Rotary(WIDTH, scaling=phasor.Llama3Scaling(8.0, original_length=32), sense="clockwise")),
    "hf": Case(phasor.Rotary(WIDTH, numerics="hf")),
    "positions of 32 bits": Case(phasor.Rotary(WIDTH), "shared_positions"),
    "none": Case(phasor.Rotary(WIDTH), None),
    "offset": Case(phasor.Rotary(WIDTH), 7),
    "one tensor": Case(phasor.Rotary(WIDTH), tensors=("q",)),
    "no batch": Case(phasor.Rotary(WIDTH), "shared_positions", ("ragged",)),
    "no heads": Case(phasor.Rotary(WIDTH), "shared_positions", ("tokens",)),
    "axes": Case(phasor.Rotary(WIDTH, axes=phasor.Axes((2, 3, 3))), "axes"),
    "axes interleaved": Case(phasor.Rotary(WIDTH, axes=phasor.Axes((2, 3, 3), order="interleaved"), pairing="interleaved"), "axes"),
    "axes shared": Case(phasor.Rotary(WIDTH, axes=phasor.Axes((4, 4))), "shared_axes"),
}
NAMES = ("q", "k", "ragged", "tokens", "positions", "shared_positions", "axes", "shared_axes")
AT = {name: number for number, name in enumerate((name, i) for name, case in CASES.items() for i in range(len(case.tensors)))}


class Rotations(torch.nn.Module):
    """All cases: their outputs one after the other."""

    def forward(self, *tensors: torch.Tensor) -> list[torch.Tensor]:
        given = dict(zip(NAMES, tensors))
        outs: list[torch.Tensor] = []
        for case in CASES.values():
            at = given[case.positions] if isinstance(case.positions, str) else case.positions
            tensors = [given[name] for name in case.tensors]
            made = case.rope(*tensors, *[None] * (2 - len(tensors)), at, inverse=case.inverse)
            outs += [made] if len(tensors) == 1 else made
        return outs


def inputs(batch: int, tokens: int) -> dict[str, torch.Tensor]:
    torch.manual_seed(batch * 100 + tokens)
    return {
        "q": torch.randn(batch, tokens, 4, WIDTH),
        "k": torch.randn(batch, tokens, 2, WIDTH),
        "ragged": torch.randn(tokens, 3, WIDTH),
        "tokens": torch.randn(tokens, WIDTH),
        "positions": torch.randint(0, LENGTH, (batch, tokens)),
        "shared_positions": torch.randint(0, LENGTH, (tokens,), dtype=torch.int32),
        "axes": torch.randint(0, LENGTH, (3, batch, tokens)),
        "shared_axes": torch.randint(0, LENGTH, (2, 1, tokens)),
    }


OPEN: dict[str, Any] = {"ragged": {0: DYNAMIC}, "tokens": {0: DYNAMIC}, "shared_positions": {0: DYNAMIC}, "axes": {1: DYNAMIC, 2: DYNAMIC}, "shared_axes": {2: DYNAMIC}}


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> File:
    path = tmp_path_factory.mktemp("onnx") / "rotations.onnx"
    given = inputs(*SHAPES[0])
    shapes = tuple(OPEN.get(name, {0: DYNAMIC, 1: DYNAMIC}) for name in NAMES)
    options: dict[str, Any] = {"max_position": LENGTH + 7, "dynamic_shapes": (shapes,), "input_names": NAMES}
    made = phasor.onnx.export(Rotations(), tuple(given[name] for name in NAMES), path, **options)
    onnx.checker.check_model(str(path), full_check=True)
    return File(made)


@pytest.mark.parametrize(("batch", "tokens"), SHAPES)
def test_every_rotation_is_pytorch_s_up_to_a_fused_rounding(file: File, batch: int, tokens: int) -> None:
    given = inputs(batch, tokens)
    found, wanted = file.run(given), Rotations()(*(given[name] for name in NAMES))
    for (name, i), number in AT.items():
        rope = CASES[name].rope
        amplitude = 1 / rope.amplitude if CASES[name].inverse else rope.amplitude
        sums = pair_sums(given[CASES[name].tensors[i]].numpy(), rope.rotary_width, rope.rotary_offset, rope.pairing)
        apart = np.abs(found[number].astype(np.float64) - wanted[number].numpy())
        assert (apart <= rotation_bound(sums, amplitude)).all(), name  # channels that do not turn: bit for bit


@pytest.mark.parametrize("name", ["half", "interleaved"])
def test_rotations_are_the_formula_s(file: File, name: str) -> None:
    """In float64: a table rounded once, two products and a sum."""
    given, base = inputs(2, 5), CASES[name].rope.base
    angle = given["positions"].numpy()[:, :, None, None] * base ** (-np.arange(0, WIDTH, 2) / WIDTH)
    for i, which in enumerate("qk"):
        x = given[which].double().numpy()
        first, second = (x[..., :8], x[..., 8:]) if name == "half" else (x[..., ::2], x[..., 1::2])
        turned = first * np.cos(angle) - second * np.sin(angle), second * np.cos(angle) + first * np.sin(angle)
        wanted = np.concatenate(turned, -1) if name == "half" else np.stack(turned, -1).reshape(x.shape)
        (found,) = file.run(given, AT[name, i])
        assert (np.abs(found - wanted) <= 4 * ROUNDING[torch.float32] * pair_sums(x, WIDTH, 0, name)).all()


def test_the_file_holds_the_nearest_cosines_and_sines(file: File) -> None:
    held = file.initializers(AT["half", 0])
    for which, of in (("cos", mpmath.cos), ("sin", mpmath.sin)):
        (table,) = [value for name, value in held.items() if name.startswith(f"phasor_{which}")]
        with mpmath.workdps(50):
            wanted = [[float(np.float32(of(n * mpmath.mpf(10000) ** (mpmath.mpf(-i) / 8)))) for i in range(8)] for n in range(LENGTH + 7)]
        assert table.dtype == np.float32 and table.tolist() == wanted


def test_nodes_say_pairing_and_width(file: File) -> None:
    for name, (interleaved, width) in {"half": (0, 0), "interleaved": (1, 0), "partial": (0, 6), "partial interleaved": (1, 10)}.items():
        (node,) = [node for node in file.nodes(AT[name, 1]) if node.op_type == "RotaryEmbedding"]
        said = [node.attributes[key].as_int() for key in ("interleaved", "rotary_embedding_dim", "num_heads")]
        assert said == [interleaved, width, 2], name
        assert len(node.inputs) == 4
    kinds = {node.op_type for number in AT.values() for node in file.nodes(number)}
    assert not kinds & {"Cos", "Sin", "Mul", "Sub"} - {"Mul"}  # Mul is of indices alone


def test_layers_of_one_spec_share_a_table(file: File) -> None:
    held = [set(file.initializers(AT[name, 0])) for name in ("half", "half again", "one tensor")]
    assert len({frozenset(name for name in names if "cos" in name or "sin" in name) for names in held}) == 1


@pytest.mark.parametrize("name", ["half", "interleaved", "positions of 32 bits", "axes", "axes shared"])
@pytest.mark.parametrize("bad", [LENGTH + 7, -1, -(LENGTH + 7), -(2**31), 2**31 - 1])
def test_positions_beyond_the_table_are_refused_by_the_runtime(file: File, name: str, bad: int) -> None:
    given = inputs(2, 5)
    file.run(given, AT[name, 0])
    at = CASES[name].positions
    assert isinstance(at, str)
    given[at].view(-1)[-2] = bad
    with pytest.raises(Exception, match=r"out of range|out of data bounds"):
        file.run(given, AT[name, 0])


def test_too_many_tokens_for_the_table_are_refused_too(file: File) -> None:
    long = {**inputs(1, 5), "q": torch.randn(1, LENGTH + 8, 4, WIDTH)}
    with pytest.raises(Exception, match=r"Updating cos_cache and sin_cache in RotaryEmbedding is not currently supported|out of range"):
        file.run(long, AT["none", 0])


# ---- Other programs ----


class Narrow(torch.nn.Module):
    """16 bits inside; also tables that the model computes, and constants as positions."""

    at: torch.Tensor
    between: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.rope, self.per_head = phasor.nn.Rotary(WIDTH, scaling=YARN), phasor.Rotary(WIDTH)
        self.register_buffer("at", FAR)
        self.register_buffer("between", torch.tensor([0.5, -0.25, 1e6 + 0.125], dtype=torch.float64))

    def forward(self, x: torch.Tensor, positions: torch.Tensor, angles: torch.Tensor) -> Any:
        wide = torch.cat((angles, angles), -1)
        other = torch.cat((angles, 2 * angles), -1)
        cos, sin = self.rope.rope.cos_sin(positions)
        return (
            self.rope(x.half(), None, positions).float(),
            self.rope(x.bfloat16(), None, positions).float(),
            self.rope(x, None, self.at),
            self.rope(x, None, self.between),
            cos,
            sin,
            phasor.apply_rotary(x, None, cos, sin),
            phasor.apply_rotary(x, None, angles.cos(), angles.sin(), pairing="interleaved", inverse=True),
            phasor.apply_rotary(x, None, wide.cos(), wide.sin()),
            phasor.apply_rotary(x, None, other.cos(), other.sin()),
            phasor.apply_rotary(x, None, other.cos(), other.sin(), pairing="interleaved", rotary_width=WIDTH),
            phasor.apply_rotary(x.bfloat16(), None, wide.cos().bfloat16(), wide.sin().bfloat16(), numerics="hf").float(),
        )


def narrow_inputs(batch: int) -> dict[str, torch.Tensor]:
    torch.manual_seed(batch)
    return {"x": torch.randn(batch, 3, 5, WIDTH), "positions": torch.randint(0, LENGTH, (batch, 3)), "angles": torch.randn(batch, 3, WIDTH // 2)}


@pytest.fixture(scope="module")
def narrow() -> File:
    shapes = {name: {0: DYNAMIC} for name in narrow_inputs(2)}
    return File(phasor.onnx.export(Narrow(), (), kwargs=narrow_inputs(2), max_position=LENGTH, dynamic_shapes=shapes))


@pytest.mark.parametrize("batch", [1, 2, 7])
def test_16_bits_constants_and_tables(narrow: File, batch: int) -> None:
    given = narrow_inputs(batch)
    found, wanted = narrow.run(given), [x.numpy() for x in Narrow()(**given)]
    x, amplitude = given["x"].numpy(), phasor.Rotary(WIDTH, scaling=YARN).amplitude
    half, interleaved = (pair_sums(x, WIDTH, 0, pairing) for pairing in ("half", "interleaved"))
    for number, dtype in enumerate((torch.float16, torch.bfloat16)):
        # Float32 inside, so that both round nearly the same number: they differ only where a rounding falls to the other side.
        apart = np.abs(found[number].astype(np.float64) - wanted[number])
        rounding = rotation_bound(1.01 * half, amplitude)
        assert (apart <= rounding + 2 * ROUNDING[dtype] * (np.abs(wanted[number]) + rounding)).all()
        assert (found[number] == wanted[number]).mean() > 0.99
    for number, sums, factor in ((2, half, amplitude), (3, half, amplitude), (6, half, amplitude), (7, interleaved, 1), (8, half, 1), (9, half, 1), (10, interleaved, 1)):
        # Tables that the runtime computes (7 to 10) are its cosines, some units in the last place from PyTorch's.
        tables = 4 * ROUNDING[torch.float32] * sums if number > 6 else 0
        assert (np.abs(found[number].astype(np.float64) - wanted[number]) <= rotation_bound(sums, factor) + tables).all(), number
    for number in (4, 5):
        assert (found[number] == wanted[number]).all()
    # Every product rounded to bfloat16: a cosine that falls to the other side moves a product by one unit.
    apart = np.abs(found[11].astype(np.float64) - wanted[11])
    assert (apart <= 8 * ROUNDING[torch.bfloat16] * half).all() and (apart == 0).mean() > 0.97


def test_tables_with_equal_halves_become_one_node(narrow: File) -> None:
    kinds = [[node.op_type for node in narrow.nodes(number)] for number in (6, 7, 8, 9, 10, 11)]
    assert [one.count("RotaryEmbedding") for one in kinds] == [1, 1, 1, 0, 0, 0]


@pytest.mark.parametrize("number", [0, 4])
@pytest.mark.parametrize("bad", [LENGTH, -1])
def test_other_ways_to_a_table_refuse_too(narrow: File, number: int, bad: int) -> None:
    given = narrow_inputs(2)
    given["positions"][1, 1] = bad
    with pytest.raises(Exception, match=r"out of range|out of data bounds"):
        narrow.run(given, number)


class Plain(torch.nn.Module):
    """A call as given."""

    def __init__(self, call: Any) -> None:
        super().__init__()
        self.call = call

    def forward(self, *tensors: torch.Tensor) -> Any:
        return self.call(*tensors)


def test_in_storage_everything_is_of_16_bits() -> None:
    x = torch.randn(2, 5, 4, WIDTH).half()
    rope = phasor.Rotary(WIDTH)
    made = phasor.onnx.export(Plain(lambda x: rope(x, None, 3)), (x,), compute="storage")
    assert [node.op_type for node in made.model.graph].count("RotaryEmbedding") == 1
    (found,) = File(made).run({"tensors_0": x})
    # A table, two products and a sum, each rounded to float16 or not.
    sums = pair_sums(x.numpy(), WIDTH, 0, "half")
    assert (np.abs(found.astype(np.float64) - rope(x, None, 3).numpy()) <= 5 * ROUNDING[torch.float16] * sums).all()


def test_the_table_of_translations_serves_torch_s_own_export(tmp_path: Path) -> None:
    rope, x, at = phasor.Rotary(WIDTH), torch.randn(1, 5, 2, WIDTH), torch.arange(5)
    program = torch.export.export(Plain(lambda x, at: rope(x, None, at)), (x, at))
    table = phasor.onnx.translations(program, max_position=8)
    torch.onnx.export(program, f=str(tmp_path / "x.onnx"), opset_version=23, custom_translation_table=table, verbose=False)
    onnx.checker.check_model(str(tmp_path / "x.onnx"), full_check=True)


X, AT_5 = torch.randn(1, 5, 2, WIDTH), torch.arange(5)
REFUSED: list[tuple[Any, tuple[Any, ...], dict[str, Any], str]] = [
    (lambda x, at: phasor.Rotary(WIDTH)(x, None, at), (X, AT_5), {}, "max_position is not given, wanted it for a rotation"),
    (lambda x, at: phasor.Rotary(WIDTH)(x, None, at), (X, AT_5.double()), {"max_position": 9}, "positions are DOUBLE, wanted integers, or constants"),
    (lambda x, at: phasor.Rotary(WIDTH)(x.double(), None, at), (X, AT_5), {"max_position": 9}, "a tensor is DOUBLE, wanted FLOAT"),
    (lambda x: phasor.Rotary(WIDTH, output_pairing="interleaved")(x), (X,), {}, "output_pairing 'interleaved'"),
    (lambda x: phasor.Rotary(WIDTH, segments=2)(x), (X,), {}, "the spec has 2 segments, wanted 1"),
    (lambda x: phasor.Rotary(WIDTH).apply_(x.clone()), (X,), {}, "in place, wanted the call that returns new tensors|in place"),
    (phasor.nn.LearnedRotary(WIDTH), (X,), {}, r"phasor::learned_rotary, which has no ONNX form; wanted the phasor.Rotary that LearnedRotary.rotary\(\) gives"),
    (lambda x: phasor.Rotary(WIDTH)(x), (X,), {"max_position": 0}, "max_position is 0, wanted an integer of at least 1"),
    (lambda x: phasor.Rotary(WIDTH)(x), (X,), {"compute": "half"}, "compute is 'half', wanted 'float32' or 'storage'"),
    (lambda x: phasor.Rotary(WIDTH)(x), (X,), {"opset_version": 22}, "opset_version is 22, wanted 23 or newer"),
]


@pytest.mark.parametrize(("call", "tensors", "options", "words"), REFUSED)
def test_what_cannot_be_said_is_refused_and_nothing_is_written(call: Any, tensors: Any, options: Any, words: str, tmp_path: Path) -> None:
    model = call if isinstance(call, torch.nn.Module) else Plain(call)
    with pytest.raises((ValueError, NotImplementedError), match=words):
        phasor.onnx.export(model, tensors, tmp_path / "x.onnx", **options)
    assert not list(tmp_path.iterdir())
