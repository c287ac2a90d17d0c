# SPDX-License-Identifier: Apache-2.0
"""Every rotary class of the installed vLLM beside ours in its place: the same arguments, the same calls, bits compared. Run by
tools/python/engines_test.sh in an environment with vLLM; not collected by make test."""

from __future__ import annotations

import functools
import importlib
import logging
import platform
import signal
import subprocess
import sys
from dataclasses import replace
from unittest import mock

import phasor
import phasor_vllm
import pytest
import torch
from phasor.engines import KINDS, read
from phasor_vllm import _layers, _register, _state
from roundings import cut, fused, lengths, room, unfused
from vllm.config import VllmConfig, set_current_vllm_config

PACKAGE = importlib.import_module(_register.PACKAGE)
OWN = {own.__name__: own for own in _register.classes_of(PACKAGE)}
F32 = torch.float32
PLAIN = (24, 16, 300, 10000.0)  # head_size, rotary_dim, positions, base
SHORT, LONG = [1.0 + 0.05 * i for i in range(8)], [1.5 + i for i in range(8)]
FOPE = {"init_cache": False, "num_key_value_heads": 2, "num_inv_freq": None, "fope_sep_head": True, "fope_init_factor": 0.1}

# Arguments of each class: of the style (neox or not) and the dtype.
MAKE = {
    "RotaryEmbedding": lambda neox, t: ((*PLAIN, neox, t), {}),
    "LinearScalingRotaryEmbedding": lambda neox, t: ((*PLAIN, neox, 4.0, t), {}),
    "NTKScalingRotaryEmbedding": lambda neox, t: ((*PLAIN, neox, 4.0, t), {"mixed_b": 0.75 if neox else None}),
    "DynamicNTKScalingRotaryEmbedding": lambda neox, t: ((*PLAIN[:3], 100, PLAIN[3], neox, 2.0, t), {}),
    "DynamicNTKAlphaRotaryEmbedding": lambda neox, t: ((*PLAIN, neox, 6.0, t), {}),
    "YaRNScalingRotaryEmbedding": lambda neox, t: ((24, 16, 75, 10000.0, neox, 4.0, t), {"truncate": neox}),
    "TeleChat3RoPEScaledRotaryEmbedding": lambda neox, t: ((24, 16, 75, 10000.0, neox, 4.0, t), {}),
    "Llama3RotaryEmbedding": lambda neox, t: ((*PLAIN, neox, t, 8.0, 1.0, 4.0, 64), {}),
    "Gemma4RotaryEmbedding": lambda neox, t: ((24, 10, 300, 10000.0, neox, t), {}),
    "DeepseekScalingRotaryEmbedding": lambda neox, t: ((24, 16, 75, 10000.0, neox, 4.0, t), {"mscale": 0.707, "mscale_all_dim": 1.0}),
    "DeepseekV4ScalingRotaryEmbedding": lambda neox, t: ((24, 16, 75, 10000.0, neox, 4.0, t), {"mscale": 1.0}),
    "MRotaryEmbedding": lambda neox, t: ((*PLAIN, neox, t), {"mrope_section": [2, 3, 3], "mrope_interleaved": False}),
    "MRotaryEmbeddingInterleaved": lambda neox, t: ((*PLAIN, neox, t), {"mrope_section": [3, 3, 2], "mrope_interleaved": True}),
    "Ernie4_5_VLRotaryEmbedding": lambda neox, t: ((*PLAIN, neox, t), {"mrope_section": [3, 3, 2]}),
    "BailingMRotaryEmbedding": lambda neox, t: ((*PLAIN, neox, t), {"mrope_section": [2, 3, 3]}),
    "XDRotaryEmbedding": lambda neox, t: ((*PLAIN, neox, 6.0, t), {"xdrope_section": [2, 2, 2, 2]}),
    "Phi3LongRoPEScaledRotaryEmbedding": lambda neox, t: ((24, 16, 200, 64, 10000.0, True, t, SHORT, LONG), {}),
    "FourierRotaryEmbedding": lambda neox, t: ((24, 24, 300, 10000.0, True, t), FOPE),
    "Llama4VisionRotaryEmbedding": lambda neox, t: ((24, 12, 25, 10000.0, False, torch.complex64), {}),
    "DualChunkRotaryEmbedding": lambda neox, t: ((*PLAIN, neox, t), {"chunk_size": 50, "local_size": 10}),
}
AXES = {"XDRotaryEmbedding": 4} | {n: 3 for n in KINDS if n.startswith(("MRotary", "Ernie", "Bailing"))}
# vLLM's own forward_cpu is no reference: it hands one argument too many to Ernie's, and FoPE's table of heads to a kernel that reads no heads.
BROKEN_ON_CPU = {"Ernie4_5_VLRotaryEmbedding", "FourierRotaryEmbedding"}
PRESENT = [name for name in MAKE if name in OWN]


@pytest.fixture(autouse=True)
def config(monkeypatch):
    monkeypatch.delenv(_state.VARIABLE, raising=False)
    config = VllmConfig()
    config.model_config = mock.Mock(max_model_len=200)
    with set_current_vllm_config(config, check_compile=False):
        yield config


def made(name, dtype=F32, neox=True, profile="vllm", which="both"):
    """vLLM's layer and ours, with the same numbers in them."""
    args, named = MAKE[name](neox, dtype)
    cuda = mock.patch.multiple(torch.accelerator, current_device_index=lambda: 0)
    device = mock.patch.object(importlib.import_module(OWN[name].__module__), "torch", _NoCuda()) if name.startswith("DualChunk") else mock.MagicMock()
    with cuda, device, mock.patch.dict("os.environ", {_state.VARIABLE: profile}):
        pair = OWN[name](*args, **named), _layers.ours(OWN[name])(*args, **named)
    if name == "FourierRotaryEmbedding":
        generator = torch.Generator().manual_seed(1)
        for own, ours in zip(pair[0].parameters(), pair[1].parameters()):
            own.data.copy_(torch.rand(own.shape, generator=generator))
            ours.data.copy_(own.data)
    return pair


class _NoCuda:
    """PyTorch for a layer that would make its tables on a GPU."""

    def __getattr__(self, name):
        return (lambda _: torch.device("cpu")) if name == "device" else getattr(torch, name)


def call(layer, name, method, positions, q, k):
    if name == "Llama4VisionRotaryEmbedding":
        return getattr(layer, method)(q, k)
    if name in ("Phi3LongRoPEScaledRotaryEmbedding", "MRotaryEmbeddingInterleaved"):
        return layer.forward(positions, q, k)
    return getattr(layer, method)(positions, q, k)


def tensors(name, dtype, tokens=7):
    generator = torch.Generator().manual_seed(3)
    high = 100 if name.startswith("Phi3") else 250
    shape = (AXES[name], tokens) if name in AXES else (tokens,)
    positions = torch.randint(0, high, shape, generator=generator)
    heads = (4, 2) if name == "FourierRotaryEmbedding" else (3, 1)
    if name == "Llama4VisionRotaryEmbedding":
        return positions, *(torch.randn(2, 26, h, 24, generator=generator).to(dtype) for h in heads)
    if name.startswith("Deepseek"):
        return positions, *(torch.randn(tokens, h, 24, generator=generator).to(dtype) for h in heads)
    return positions, *(torch.randn(tokens, 24 * h, generator=generator).to(dtype) for h in heads)


def test_every_class_of_vllm_is_known():
    rotary = {n for n, c in OWN.items() if n.endswith(("RotaryEmbedding", "RotaryEmbeddingInterleaved")) and issubclass(c, torch.nn.Module)}
    assert rotary - {"RotaryEmbeddingBase"} == set(PRESENT)  # the base turns nothing itself


@pytest.mark.parametrize("method", ["forward_native", "forward_cpu"])
@pytest.mark.parametrize("dtype", [F32, torch.bfloat16])
@pytest.mark.parametrize("neox", [True, False])
@pytest.mark.parametrize("name", PRESENT)
def test_same_bits_as_vllm(name, neox, dtype, method):
    own, ours = made(name, dtype, neox)
    assert ours.turner is not None and type(ours).__name__ == name
    positions, q, k = tensors(name, dtype)
    phasor_vllm.calls.clear()
    kernel = method == "forward_cpu" and KINDS[name].kernel
    missing = kernel and not kernel_runs(dtype)  # then ours is compared with the formula alone
    own_method = "forward_native" if name in BROKEN_ON_CPU or missing else method
    wanted = [t.clone() for t in call(own, name, own_method, positions, q.clone(), k.clone())]
    kept = q.clone()
    if missing:
        wanted = written_out(own, name, positions, q, k)
    elif contracted(name, neox, dtype, method):
        theirs, wanted = wanted, written_out(own, name, positions, q, k)
        for t, w in zip(theirs, wanted):  # vLLM's own numbers beside the formula with every product rounded, which is ours
            assert_within_a_fusion(own, t, w)
    got = call(ours, name, method, positions, q, k)
    assert phasor_vllm.calls[name] == 1
    for g, w in zip(got, wanted):
        assert g.shape == w.shape and g.dtype == w.dtype and torch.equal(g, w)
    assert (got[0] is q) == kernel and torch.equal(q, got[0] if kernel else kept)


def contracted(name, neox, dtype, method):
    """Where one of vLLM's two products may be part of a fused operation, so that its bits are not those of the formula."""
    if name == "Llama4VisionRotaryEmbedding":  # PyTorch's product of complex numbers: see test_complex_products_of_pytorch
        return True
    return method == "forward_cpu" and KINDS[name].kernel and kernel_of_vllm(neox, dtype) != ("none", "none", False)


def written_out(own, name, positions, q, k):
    """The formula in float32 with every product rounded, then to the dtype of q: by PyTorch's operations on real numbers."""
    if name != "Llama4VisionRotaryEmbedding":  # vLLM's are these; the table has been rounded to the dtype already
        return [t.to(q.dtype) for t in own.forward_native(positions, q.float(), k.float())]
    cos, sin = (t.reshape(26, 1, 12) for t in (own.cos_sin_cache.real, own.cos_sin_cache.imag))
    pairs = [(x.float()[..., ::2], x.float()[..., 1::2]) for x in (q, k)]
    return [torch.stack((unfused(a, cos, -b, sin), unfused(a, sin, b, cos)), -1).flatten(-2).to(q.dtype) for a, b in pairs]


def assert_within_a_fusion(own, got, wanted):
    heads = (*wanted.shape[:-1], -1, own.head_size)
    patches = type(own).__name__ == "Llama4VisionRotaryEmbedding"  # 12 of 24 channels are of each axis; all turn
    width, neox = (own.head_size, False) if patches else (own.rotary_dim, own.is_neox_style)
    allowed = room(got.dtype, lengths(wanted.reshape(heads), width, neox))
    assert ((got.reshape(heads).double() - wanted.reshape(heads).double()).abs() <= allowed).all()


@functools.cache
def kernel_runs(dtype):
    """Whether this processor has the instructions of vLLM's kernel, asked in a process of its own. The wheel for aarch64 has those of bfloat16
    (Armv8.6) in it, whatever the processor."""
    ask = (
        "import torch, vllm._C; x = torch.ones(4, 32, dtype=torch.%s); "
        "torch.ops._C.rotary_embedding(torch.arange(4), x, None, 32, torch.ones(4, 32, dtype=x.dtype), True)"
    )
    ended = subprocess.run([sys.executable, "-c", ask % str(dtype).removeprefix("torch.")], capture_output=True, text=True)
    assert ended.returncode in (0, -signal.SIGILL), ended.stderr[-2000:]
    return ended.returncode == 0


def kernel_of_vllm(neox, dtype):
    """How vLLM's kernel for the CPU rounds, by its bits: which product of a pair's first and of its second value is part of a fused operation
    ("none", "sine" or "cosine"), and whether bfloat16 is cut; None: unknown."""
    from vllm import _custom_ops as ops

    x = torch.randn(64, 32, generator=torch.Generator().manual_seed(0)).to(dtype)
    table = torch.randn(64, 32, generator=torch.Generator().manual_seed(1)).to(dtype)
    out = x.clone()
    ops.rotary_embedding(torch.arange(64), out, None, 32, table, neox)
    (a, b), found = (t.chunk(2, -1) if neox else (t[:, ::2], t[:, 1::2]) for t in (x, out))
    cos, sin = table.chunk(2, -1)
    for is_cut in (False, True) if dtype != F32 else (False,):
        fits = [rounding_of(f, *products, is_cut) for f, products in zip(found, ((a, cos, -b, sin), (b, cos, a, sin)))]
        if None not in fits:
            return (*fits, is_cut)
    return None


def rounding_of(found, x, cos, y, sin, is_cut):
    """Which product of x cos + y sin is fused, where every value of `found` says so; None where none of these gives them."""
    forms = {"none": unfused(x, cos, y, sin), "sine": fused(y, sin, x, cos), "cosine": fused(x, cos, y, sin)}
    return next((name for name, t in forms.items() if torch.equal(found, cut(t) if is_cut else t.to(found.dtype))), None)


@pytest.mark.parametrize("dtype", [F32, torch.bfloat16])
@pytest.mark.parametrize("neox", [True, False])
def test_kernel_of_vllm_rounds_in_a_way_we_know(neox, dtype):
    """docs/vllm.md says which of them: that goes by the compiler, so by the wheel's architecture. Another build may do otherwise; this then says so."""
    if not kernel_runs(dtype):
        pytest.skip(f"vLLM's kernel for {dtype} has instructions that this processor has not (SIGILL)")
    assert kernel_of_vllm(neox, dtype) is not None


def test_complex_products_of_pytorch():
    """Why Llama 4's vision has no bits of its own: the same product is rounded otherwise by its place in a row."""
    generator = torch.Generator().manual_seed(0)
    x, y = (torch.randn(200, 47, 2, generator=generator) for _ in range(2))
    found = torch.stack([torch.view_as_real(torch.view_as_complex(p) * torch.view_as_complex(q)) for p, q in zip(x, y)])
    (a, b), (c, d) = x.unbind(-1), y.unbind(-1)
    forms = [torch.stack((form(a, c, -b, d), form(a, d, b, c)), -1) for form in (unfused, fused, lambda p, q, r, s: fused(r, s, p, q))]
    same = torch.stack([found == form for form in forms])
    assert same.any(0).all()  # each value is one of the three
    assert not same.flatten(1).all(1).any()  # and no one of them is all values
    if platform.machine() == "x86_64":  # whole vectors: every product rounded. On aarch64 they fuse, too
        assert same[0, :, :32].all()


@pytest.mark.parametrize("name", [n for n in PRESENT if n != "FourierRotaryEmbedding"])
def test_exact_is_near_vllm_where_its_table_is_good(name):
    own, ours = made(name, profile="exact")
    assert ours.turner.exact is not None
    positions, q, k = tensors(name, F32)
    for w, g in zip(call(own, name, "forward_native", positions, q.clone(), k.clone()), call(ours, name, "forward_native", positions, q, k)):
        assert (g - w).abs().max() < 1e-4  # a float32 angle at position 250 is off by some 1e-5
        assert g.shape == w.shape


@pytest.mark.parametrize("name", [n for n in PRESENT if n not in ("FourierRotaryEmbedding", "Llama4VisionRotaryEmbedding", "DualChunkRotaryEmbedding")])
@pytest.mark.parametrize("neox", [True, False])
def test_profile_vllm_has_the_tables_of_vllm_within_an_ulp_of_the_angle(name, neox):
    """numerics="vllm" of the spec read, without any table: PyTorch's pow, cos and sin are not rounded correctly, ours are."""
    own, _ = made(name, neox=neox)
    reading = read(own)
    rope = phasor.Rotary.from_spec(replace(reading.as_engine, numerics="vllm", axes=phasor.Axes()))
    table = own.long_short_cos_sin_cache[64:] if name.startswith("Phi3") else own.cos_sin_cache
    at = torch.arange(min(250, len(table)))
    cos, sin = rope.cos_sin(at)
    for got, wanted in zip((cos, sin), table[at].float().chunk(2, -1)):
        angle = at[:, None] * torch.from_numpy(rope.frequencies).abs()
        room = abs(rope.amplitude) * torch.finfo(F32).eps * (2 + 2 * angle)
        assert ((got - wanted).abs() <= room).all()


@pytest.mark.parametrize("method", ["forward_native", "forward_cpu"])
def test_factors_of_each_request_in_one_batch(method):
    """What vLLM's interface has of scaling for each request: tables one after the other, and positions that begin at a factor's own."""
    args, name = (24, 16, 40, 10000.0, False, [1.0, 2.5, 4.0], F32), "LinearScalingRotaryEmbedding"
    own = OWN[name](*args)
    of_request = torch.tensor([own.scaling_factor_to_offset[f] for f in (4.0, 1.0, 2.5, 4.0)]).repeat_interleave(2)
    assert of_request.unique().tolist() == [0, 40, 140]
    at = of_request + torch.tensor([159, 3, 39, 0, 99, 7, 80, 1])
    q, k = (torch.randn(8, 24 * h, generator=torch.Generator().manual_seed(h)) for h in (3, 1))
    wanted = own.forward_native(at, q.clone(), k.clone())
    for profile, room in (("vllm", 0.0), ("exact", 1e-5)):
        with mock.patch.dict("os.environ", {_state.VARIABLE: profile}):
            ours = _layers.ours(OWN[name])(*args)
        for w, g in zip(wanted, getattr(ours, method)(at, q.clone(), k.clone())):
            assert (g - w).abs().max() <= room


def test_exact_at_a_million_against_vllm():
    """What vLLM's float32 angles cost at large positions."""
    args = (128, 128, 1_048_576, 10000.0, True, F32)
    own = OWN["RotaryEmbedding"](*args)
    off = read(own)
    assert off.last == 1_048_575 and 1e-2 < off.off < 0.2
    last = torch.tensor([1_048_575])
    angle = last.double() * torch.tensor([10000.0 ** (-i / 64) for i in range(64)], dtype=torch.float64)
    true = torch.cat((angle.cos(), angle.sin()))
    assert (own.cos_sin_cache[-1].double() - true).abs().max() == pytest.approx(off.off, rel=1e-3)


def test_ramp_of_vllm_is_kept_by_default_and_corrected_in_exact(caplog):
    args, named = (128, 128, 4096, 1e6, True, F32), {"mrope_section": [16, 24, 24], "scaling_factor": 4.0}
    own = OWN["MRotaryEmbedding"](*args, **named)
    ours = _layers.ours(OWN["MRotaryEmbedding"])(*args, **named)
    at, q, k = torch.randint(0, 4000, (3, 5)), torch.randn(5, 256), torch.randn(5, 128)
    for w, g in zip(own.forward_native(at, q, k), ours.forward_native(at, q, k)):
        assert torch.equal(w, g)
    logging.getLogger("vllm").propagate = True
    with mock.patch.dict("os.environ", {_state.VARIABLE: "exact"}), caplog.at_level(logging.WARNING):
        exact = _layers.ours(OWN["MRotaryEmbedding"])(*args, **named)
    assert exact.turner.reading.corrected and exact.turner.reading.spec.scaling.original_length == 4096
    assert "instead of the trained length (4096)" in caplog.text
    assert (exact.forward_native(at, q, k)[0] - own.forward_native(at, q, k)[0]).abs().max() > 1e-2


def test_layer_that_changed_is_left_to_vllm(caplog):
    """A class of a known name with another formula: the table contradicts the attributes, and all calls are vLLM's own."""

    class YaRNScalingRotaryEmbedding(OWN["YaRNScalingRotaryEmbedding"]):
        def _compute_inv_freq(self, scaling_factor):
            return super()._compute_inv_freq(scaling_factor) * 1.01

    logging.getLogger("vllm").propagate = True
    with mock.patch.dict("os.environ", {_state.VARIABLE: "exact"}), caplog.at_level(logging.WARNING):
        args, named = MAKE["YaRNScalingRotaryEmbedding"](True, F32)
        ours = _layers.ours(YaRNScalingRotaryEmbedding)(*args, **named)
    assert ours.turner is None and "YaRNScalingRotaryEmbedding is left to vLLM: its cosine" in caplog.text
    positions, q, k = tensors("RotaryEmbedding", F32)
    own = YaRNScalingRotaryEmbedding(*args, **named)
    for method in ("forward_native", "forward_cpu"):
        for w, g in zip(getattr(own, method)(positions, q.clone(), k.clone()), getattr(ours, method)(positions, q.clone(), k.clone())):
            assert torch.equal(w, g)


def test_ernie_of_vllm_fails_on_the_cpu_where_ours_does_not():
    own, _ = made("Ernie4_5_VLRotaryEmbedding")
    with pytest.raises(TypeError, match="takes from 3 to 4 positional arguments but 5 were given"):
        own.forward_cpu(*tensors("Ernie4_5_VLRotaryEmbedding", F32))


def test_fope_of_vllm_is_wrong_on_the_cpu_where_ours_is_not():
    """Its forward_cpu is that of the base: a kernel whose tables have no heads. Even with a table that forward_native has filled."""
    own, _ = made("FourierRotaryEmbedding")
    positions, q, k = tensors("FourierRotaryEmbedding", F32)
    right = own.forward_native(positions, q, k)[0]
    wrong = own.forward_cpu(positions, q.clone(), k.clone())[0]
    assert (wrong.reshape(right.shape) - right).abs().max() > 0.1


@pytest.mark.parametrize("name", ["RotaryEmbedding", "DeepseekV4ScalingRotaryEmbedding"])
def test_query_alone(name):
    own, ours = made(name, neox=False)
    positions, q, _ = tensors(name, F32)
    wanted, got = own.forward_native(positions, q), ours.forward_native(positions, q)
    assert wanted[1] is None and got[1] is None and torch.equal(wanted[0], got[0])


def test_apply_rotary_emb():
    for neox in (True, False):
        for wide in (False, True):
            for dtype in (F32, torch.bfloat16):
                own = OWN["ApplyRotaryEmb"](is_neox_style=neox, enable_fp32_compute=wide)
                ours = _layers.ours(OWN["ApplyRotaryEmb"])(is_neox_style=neox, enable_fp32_compute=wide)
                for shape in ((5, 3, 16), (2, 5, 3, 16)):
                    x, cos, sin = torch.randn(shape).to(dtype), torch.randn(5, 8), torch.randn(5, 8)
                    assert torch.equal(own.forward_native(x, cos, sin), ours.forward_native(x, cos, sin))


def test_option_of_the_config_goes_before_the_environment(config):
    config.additional_config = {_state.OPTION: "exact"}
    assert _layers.ours(OWN["RotaryEmbedding"])(*PLAIN, True, F32).turner.exact is not None
    config.additional_config = {_state.OPTION: "exactly"}
    with pytest.raises(ValueError, match=r"additional_config\['phasor_profile'\]: is 'exactly', wanted 'vllm' .* or 'exact'"):
        _layers.ours(OWN["RotaryEmbedding"])(*PLAIN, True, F32)


@pytest.mark.parametrize("version", ["0.31.9", "0.33.0", "1.32.0", "dev"])
def test_unknown_version_is_left_alone_with_a_warning(version, caplog):
    from vllm.model_executor import custom_op

    logging.getLogger("vllm").propagate = True
    before = dict(custom_op.op_registry_oot)
    with mock.patch("vllm.__version__", version), mock.patch.object(_register, "_done", []), caplog.at_level(logging.WARNING):
        phasor_vllm.register()
    assert f"vLLM is {version}, wanted 0.32; vLLM's own rotary layers stay" in caplog.text
    assert custom_op.op_registry_oot == before


def test_wrong_profile_ends_the_start():
    with mock.patch.dict("os.environ", {_state.VARIABLE: "precise"}), pytest.raises(ValueError, match="PHASOR_VLLM_PROFILE: is 'precise'"):
        phasor_vllm.register()


def test_key_of_compiled_graphs_knows_the_profile():
    from vllm import envs

    with mock.patch.dict(envs.environment_variables):
        _register.remember_in_compile_keys()
        found = []
        for profile in ("vllm", "exact"):
            with mock.patch.dict("os.environ", {_state.VARIABLE: profile}):
                found.append(envs.compile_factors()["PHASOR_VLLM"])
    assert len(set(found)) == 2
