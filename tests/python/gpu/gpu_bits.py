# SPDX-License-Identifier: Apache-2.0
"""From Python, a GPU gives the bits of the CPU: rotation in and out of place, by tables, backwards; rows; keys that move."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

import phasor
from cases import DEVICE, DTYPES, ON_GPU, SPECS, moved, needs_gpu, numbers, positions_of, raises, same_bits


def calls() -> Iterator[tuple[str, phasor.Rotary, Tensor, Tensor, Any]]:
    for name, rope in SPECS.items():
        for dtype in DTYPES:
            q = numbers(3, 7, 5, rope.head_dim, dtype=dtype, seed=1)
            k = numbers(3, 7, 1, rope.head_dim, dtype=dtype, seed=2)
            for form, at in positions_of(rope, 3, 7).items():
                yield f"{name} {dtype} {form}", rope, q, k, at


def test_rotation_into_new_tensors() -> None:
    for name, rope, q, k, at in calls():
        got, wanted = rope(*moved(q, k, at)), rope(q, k, at)
        assert same_bits(got, wanted), name


def test_rotation_in_place() -> None:
    for name, rope, q, k, at in calls():
        if rope.output_pairing is not None:
            continue
        wanted = rope.apply_(q.clone(), k.clone(), at)
        q, k, at = moved(q, k, at)
        got = rope.apply_(q, k, at)
        assert got[0] is q and same_bits(got, wanted), name


def test_inverse_and_transpose() -> None:
    for name, rope, q, k, at in calls():
        for direction in ("inverse", "transpose"):
            assert same_bits(rope(*moved(q, k, at), direction=direction), rope(q, k, at, direction=direction)), f"{name} {direction}"


def test_strided_tensors() -> None:
    rope = SPECS["half"]
    for dtype in DTYPES:
        packed = numbers(2, 9, 3, 4, 64, dtype=dtype)
        beside = moved(packed)[0]
        for axis in range(3):
            wanted, got = (rope(x[:, :, axis].transpose(1, 2).transpose(1, 2), positions=11) for x in (packed, beside))
            assert same_bits(got, wanted)
        wanted, got = (rope(x[:, :, 0].transpose(1, 2).contiguous().transpose(1, 2), positions=11) for x in (packed, beside))
        assert same_bits(got, wanted)


def test_tables_given() -> None:
    for pairing in ("half", "interleaved"):
        for dtype in DTYPES:
            for table in (torch.float32, dtype):
                q, k = numbers(2, 6, 3, 32, dtype=dtype, seed=3), numbers(2, 6, 1, 32, dtype=dtype, seed=4)
                cos, sin = numbers(2, 6, 16, dtype=table, seed=5), numbers(2, 6, 16, dtype=table, seed=6)
                for numerics in ("exact", "hf"):
                    try:
                        wanted = phasor.apply_rotary(q, k, cos, sin, pairing=pairing, numerics=numerics)
                    except (ValueError, TypeError, NotImplementedError):
                        continue  # refused alike: gpu_errors.py
                    got = phasor.apply_rotary(*moved(q, k, cos, sin), pairing=pairing, numerics=numerics)
                    assert same_bits(got, wanted), (pairing, dtype, table, numerics)
                    there_q, there_k, *tables = moved(q, k, cos, sin)
                    phasor.apply_rotary_(there_q, there_k, *tables, pairing=pairing, numerics=numerics)
                    assert same_bits((there_q, there_k), wanted)


def test_rows_of_cosines_and_sines() -> None:
    for name, rope in SPECS.items():
        for form, at in positions_of(rope, 3, 7).items():
            if at is None or isinstance(at, int):
                continue
            for dtype in ("float32", "float64"):
                got = rope.cos_sin(*moved(at), dtype=dtype)
                assert got[0].device.type == moved(at)[0].device.type
                assert same_bits(got, rope.cos_sin(at, dtype=dtype)), f"{name} {form} {dtype}"


def test_rows_made_once_are_what_positions_give() -> None:
    rope, (at,) = SPECS["half"], moved(torch.arange(100, 110))
    q = moved(numbers(2, 10, 3, 64))[0]
    assert same_bits(phasor.apply_rotary(q, None, *rope.cos_sin(at)), rope(q, positions=at))


def test_keys_that_move() -> None:
    target = SPECS["half"]
    source = phasor.Rotary(head_dim=64, base=1e4)
    for dtype in DTYPES:
        k = numbers(2, 9, 3, 64, dtype=dtype)
        before, after = torch.arange(5, 14), torch.arange(1000, 1009)
        wanted = target.rerotate_(k.clone(), before, after, source=source)
        got = target.rerotate_(*moved(k, before, after), source=source)
        assert same_bits(got, wanted), dtype


def test_keys_of_a_paged_cache_that_move() -> None:
    target, source = SPECS["half"], phasor.Rotary(head_dim=64, base=1e4)
    slots, before, after = torch.tensor([7, -1, 0, 11, 2]), torch.arange(5) + 5, torch.arange(5) * 1000

    def call(k: Tensor, before: Tensor, after: Tensor, slots: Tensor) -> Tensor:
        return target.rerotate_(k, before, after, source=source, slots=slots)

    for dtype in DTYPES:
        k = numbers(4, 3, 2, 64, dtype=dtype)
        wanted = call(k.clone(), before, after, slots)
        for of in (slots, slots.int()):
            assert same_bits(call(*moved(k, before, after, of)), wanted), dtype
            torch._dynamo.reset()
            assert same_bits(torch.compile(call, fullgraph=True, backend="aot_eager")(*moved(k, before, after, of)), wanted), dtype
        for of in (slots.tolist(), slots.numpy()):  # of the host
            assert same_bits(call(*moved(k, before, after), of), wanted), dtype
    there = moved(numbers(4, 3, 2, 64))[0]
    with raises(ValueError, "of 3 tokens|have 3 tokens"):  # as many as a page has slots, and consecutive
        target.rerotate_(there, range(3), 0, slots=slots.to(there.device))
    consecutive = numbers(4, 3, 2, 64)
    assert same_bits(target.rerotate_(moved(consecutive)[0], range(5), 9, slots=moved(slots)[0]), target.rerotate_(consecutive, range(5), 9, slots=slots))


def test_keys_that_move_in_a_captured_graph_go_where_the_slots_are_then() -> None:
    needs_gpu()
    rope = SPECS["half"]
    k, slots, at = moved(numbers(4, 3, 2, 64), torch.tensor([7, -1, 0], dtype=torch.int32), torch.arange(3) + 100)
    kept = k.clone()
    rope.rerotate_(k, at, 0, slots=slots)  # kernels are loaded
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        rope.rerotate_(k, at, 0, slots=slots)
    k.copy_(kept)
    slots.copy_(torch.tensor([3, 9, -5]))
    graph.replay()
    assert same_bits(k, rope.rerotate_(kept.cpu(), at.cpu(), 0, slots=slots.cpu()))


def test_positions_without_a_device_follow_the_tensor() -> None:
    rope, q = SPECS["half"], numbers(2, 5, 3, 64)
    for at in (range(3, 8), [3, 4, 5, 6, 7], [9, 1, 4, 4, 0], torch.arange(5).numpy(), 4, None):
        assert same_bits(rope(moved(q)[0], positions=at), rope(q, positions=at))
        assert same_bits(rope.apply_(moved(q)[0], positions=at), rope(q, positions=at))


def test_nothing_to_do() -> None:
    rope = SPECS["half"]
    for shape in ((0, 5, 3, 64), (2, 0, 3, 64)):
        q = moved(torch.empty(shape))[0]
        assert rope(q).shape == shape and rope.apply_(q) is q


def test_sinusoids_added() -> None:
    x, at = numbers(2, 7, 48), torch.arange(7) * 1000
    encoding = phasor.Sinusoidal(48)
    assert same_bits(encoding.add(*moved(x, at)), encoding.add(x, at))
    assert same_bits(encoding.add(*moved(x, at), amplitude=0.5), encoding.add(x, at, amplitude=0.5))
    assert same_bits(encoding(*moved(at)), encoding(at))


def test_rows_of_a_table_added() -> None:
    x, table, at = numbers(2, 7, 48), numbers(30, 48, seed=1), torch.arange(7) * 3
    assert same_bits(phasor.lookup_add(*moved(x, table, at)), phasor.lookup_add(x, table, at))


def test_biases() -> None:
    at = torch.arange(9)
    mlp = phasor.Mlp(widths=(1, 5, 3), parameters=numbers(28, seed=4).tolist())
    table = phasor.T5Buckets(heads=2, table=numbers(64).tolist())
    for spec in (phasor.Alibi(heads=3), table, phasor.Kerple(r1=(0.5, 2.0), r2=(1.0, 0.25)), phasor.Fire(mlp=mlp)):
        scheme = phasor.Bias(spec)
        assert same_bits(scheme(*moved(at, at)), scheme(at, at)), spec
        diagonal = numbers(scheme.heads, 11, seed=7)
        got, wanted = scheme.gradient(moved(diagonal)[0], -5), scheme.gradient(diagonal, -5)
        if ON_GPU:
            assert got.device.type == DEVICE
        assert same_bits(torch.as_tensor(got), torch.as_tensor(wanted)), spec


def test_positions_are_built_where_their_lists_are() -> None:
    offsets, ends, blocks = torch.tensor([5, 900, 7]), torch.tensor([0, 4, 5, 11]), torch.tensor([[2, 0, 5], [1, 3, 4], [6, 7, 8]])
    build = phasor.positions
    llama4 = phasor.QueryTemperature(kind="floored_log", scale=0.1, length=8192, shift=1)

    def built(device: str) -> list[Any]:
        first, cu, pages = (x.to(device) for x in (offsets, ends, blocks))
        whole, ragged = torch.empty(6, dtype=torch.int64, device=device), torch.empty(11, dtype=torch.int32, device=device)
        at = build.from_offsets(4, first - first)
        return [
            build.from_offset(6, 70, out=whole),
            build.from_offsets(4, first),
            build.from_cu_seqlens(cu, first, out=ragged),
            build.slots(at, pages, 3),
            build.temperature(llama4, at * 3000),
            build.temperature(llama4, at * 3000, out=torch.empty(3, 4, device=device)),
        ]

    for got, wanted in zip(built(DEVICE), built("cpu")):
        if ON_GPU:
            assert got.device.type == DEVICE
        assert same_bits(torch.as_tensor(got), torch.as_tensor(wanted))
    if ON_GPU:
        with raises(ValueError, "wanted out="):
            build.from_cu_seqlens(ends.to(DEVICE))


def test_an_amplitude_that_learns() -> None:
    x, at, by = numbers(2, 7, 48), torch.arange(7) * 1000, numbers(2, 7, 48, seed=3)

    def run(device: str) -> tuple[Tensor, ...]:
        module = phasor.nn.Sinusoidal(48, learned_amplitude=True).to(device)
        out = module(x.to(device), at.to(device))
        out.backward(by.to(device))
        return out, module.amplitude.grad

    got, wanted = run(DEVICE), run("cpu")
    assert same_bits(got[0], wanted[0])
    # The order of the sum is not a contract between devices: n additions in float64, and one rounding to the parameter's float32.
    bound = x.numel() * 2.0**-52 * float((by.abs() * phasor.Sinusoidal(48)(at, dtype="float32").abs()).sum()) + 2.0**-23 * float(wanted[1].abs())
    assert float((got[1].cpu() - wanted[1]).abs()) <= bound
    direct = [phasor.Sinusoidal(48).amplitude_gradient(y, p) for y, p in ((by, at), moved(by, at))]
    assert abs(direct[0] - direct[1]) <= bound
