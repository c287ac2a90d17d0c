# SPDX-License-Identifier: Apache-2.0
"""Rotations of the installed ggml on our backend: beside a formula written out, and beside ggml's own CPU. Run by
tools/python/ggml_test.sh in an environment with ggml; not collected by make test."""

from __future__ import annotations

import ctypes
from dataclasses import replace

import numpy as np
import pytest
import reference
from library import BACKEND, IMROPE, MROPE, NEOX, NORMAL, VISION, Library, Node, Rope, load_copy

F32, F16 = np.float32, np.float16
YARN = {"n_ctx_orig": 4096, "ext_factor": 1.0}
# Head width, the node's numbers, whether it has factors.
CASES = {
    "normal": (24, Rope(24, NORMAL), False),
    "neox": (24, Rope(24), False),
    "neox, one pair": (2, Rope(2), False),
    "neox, wide base": (128, Rope(128, freq_base=5e6), False),
    "normal, partial": (40, Rope(24, NORMAL), False),
    "neox, partial": (40, Rope(26), False),
    "neox, offset": (40, Rope(22, n_offs=6), False),
    "normal, offset": (40, Rope(22, NORMAL, n_offs=18), False),
    "linear": (24, Rope(24, freq_scale=0.25), False),
    "linear, factor 3": (24, Rope(24, NORMAL, freq_scale=1 / 3), False),
    "amplitude": (24, Rope(24, attn_factor=1.19), False),
    "factors": (24, Rope(24), True),
    "factors, partial": (40, Rope(24, NORMAL), True),
    "factors, linear, amplitude": (24, Rope(24, freq_scale=0.125, attn_factor=0.8), True),
    "yarn": (64, Rope(64, freq_scale=1 / 16, attn_factor=1 / (1 + 0.1 * np.log(16)), **YARN), False),
    "yarn, amplitude": (64, Rope(64, NORMAL, freq_scale=1 / 32, **YARN), False),
    "yarn, betas": (96, Rope(64, freq_base=150000, freq_scale=1 / 32, beta_fast=20, beta_slow=2, **YARN), False),
    "yarn, factors": (64, Rope(64, freq_scale=0.5, **YARN), True),
    "yarn, half": (64, Rope(64, freq_scale=0.25, **YARN | {"ext_factor": 0.5}), False),
    "mrope": (32, Rope(32, MROPE, (4, 6, 6, 0)), False),
    "mrope, four axes": (48, Rope(32, MROPE, (4, 5, 3, 4)), False),
    "mrope, sections repeat": (32, Rope(32, MROPE, (2, 3, 1, 0)), False),
    "mrope, an empty section": (32, Rope(32, MROPE, (8, 0, 8, 0)), False),
    "mrope, one axis": (32, Rope(32, MROPE, (16, 0, 0, 0)), False),
    "mrope, yarn, factors": (64, Rope(64, MROPE, (8, 12, 12, 0), freq_scale=0.25, **YARN), True),
    "imrope": (64, Rope(64, IMROPE, (11, 11, 10, 0)), False),
    "imrope, leftovers": (128, Rope(128, IMROPE, (24, 20, 20, 0), freq_base=5e6), False),
    "imrope, partial, linear": (80, Rope(64, IMROPE, (11, 11, 10, 0), freq_scale=0.5, n_offs=4), False),
    "vision": (80, Rope(40, VISION, (20, 20, 20, 20)), False),
    "vision, uneven": (32, Rope(16, VISION, (5, 7, 4, 0)), False),
    "vision, scaled": (32, Rope(16, VISION, (8, 8, 0, 0), freq_scale=0.5, attn_factor=1.5), True),
}
# What numerics ggml has no formula for: those nodes stay with ggml.
NOT_IN_PROFILE = {"factors, linear, amplitude", "yarn, factors", "yarn, half", "mrope, yarn, factors", "vision, uneven", "vision, scaled"}


@pytest.fixture(scope="session")
def of_session():
    return Library()


@pytest.fixture
def library(of_session, request):
    name = getattr(request.node, "callspec", None) and request.node.callspec.params.get("name")
    if name and CASES[name][1].n_offs and not of_session.has_offsets:
        pytest.skip("this ggml has no ropes with an offset")
    return of_session


@pytest.fixture(scope="session")
def registries(of_session, tmp_path_factory):
    folder = tmp_path_factory.mktemp("backends")
    return {numerics: load_copy(of_session, folder, numerics) for numerics in ("exact", "ggml")}


@pytest.fixture
def backends(library, registries):
    made = {name: library.backend(library.device(registry)) for name, registry in registries.items()} | {"cpu": library.cpu()}
    yield made
    for backend in made.values():
        library.call("ggml_backend_free", backend, result=None)


def inputs(name, dtype, furthest, tokens=7, heads=3, batch=2):
    """Values, positions (4, T) and factors: no two tokens at one position, the axes far apart."""
    width, rope, has_factors = CASES[name]
    random = np.random.default_rng(sum(map(ord, name)))
    x = random.standard_normal((batch, tokens, heads, width)).astype(dtype)
    positions = random.integers(0, furthest, (4, tokens)).astype(np.int32)
    positions[:, -1] = furthest
    factors = np.exp(random.uniform(-1, 3, width)).astype(F32) if has_factors else None
    return rope, x, positions, factors


def rotated(library, backend, rope, x, positions, factors=None, **how):
    node = Node(library, rope, x, positions if rope.mode & MROPE else positions[0], factors, **how)
    out = node.compute(backend)
    node.free()
    return out


def check_exact(out, wanted, sizes, furthest):
    """cos, sin, the products and their sum are each rounded once to float32, then the result to float16; angles by ours and by the
    reference differ by their own roundings: float64 for numbers that a plan is given."""
    bound = 3 * 2.0**-24 * sizes + furthest * 2.0**-50 * sizes
    if out.dtype == F16:
        bound = bound + 2.0**-11 * abs(wanted) + 2.0**-25
    worst = (abs(out.astype(reference.REAL) - wanted) - bound).max()
    assert worst <= 0, f"off by {worst} more than the bound"


@pytest.mark.parametrize("dtype", [F32, F16])
@pytest.mark.parametrize("furthest", [100, 131072, 2**31 - 1])
@pytest.mark.parametrize("name", CASES)
def test_exact(library, backends, name, furthest, dtype):
    rope, x, positions, factors = inputs(name, dtype, furthest)
    wanted, sizes = reference.rotate(rope, x, positions, factors)
    check_exact(rotated(library, backends["exact"], rope, x, positions, factors), wanted, sizes, furthest)


@pytest.mark.parametrize("name", ["normal", "neox", "neox, wide base", "neox, offset", "mrope", "imrope, leftovers", "vision"])
def test_exact_bits(library, backends, name):
    """Without scalings every table value is the nearest float32."""
    rope, x, positions, _ = inputs(name, F32, 1_000_000)
    np.testing.assert_array_equal(rotated(library, backends["exact"], rope, x, positions), reference.rotate_nearest(rope, x, positions))


@pytest.mark.parametrize("how", [{"view": True}, {"inplace": True}, {"view": True, "inplace": True}, {"back": True}])
@pytest.mark.parametrize("name", ["normal, offset", "yarn, amplitude", "mrope, four axes", "vision", "factors, partial"])
def test_forms(library, backends, name, how):
    rope, x, positions, factors = inputs(name, F32, 5000)
    if how.get("back"):
        rope = replace(rope, n_offs=0)  # ggml's function for the gradient makes a node that cannot take an offset
    wanted, sizes = reference.rotate(rope, x, positions, factors, back=how.get("back", False))
    check_exact(rotated(library, backends["exact"], rope, x, positions, factors, **how), wanted, sizes, 5000)


@pytest.mark.parametrize("name", CASES)
def test_as_the_engine(library, backends, name):
    """ggml's own CPU means the same: near position 0, where its angles are good, results are close."""
    rope, x, positions, factors = inputs(name, F32, 50)
    own = rotated(library, backends["cpu"], rope, x, positions, factors)
    np.testing.assert_allclose(rotated(library, backends["exact"], rope, x, positions, factors), own, rtol=0, atol=1e-4)


def test_further_than_ggml(library, backends):
    """Where the running product has drifted: ggml's CPU is off, the backend is not."""
    rope, x, positions, _ = inputs("neox, wide base", F32, 1_000_000)
    wanted, _ = reference.rotate(rope, x, positions)
    off = {name: float(abs(rotated(library, backends[name], rope, x, positions) - wanted).max()) for name in ("cpu", "exact", "ggml")}
    assert off["exact"] < 1e-6 < 1e-2 < off["cpu"], off
    assert off["ggml"] == pytest.approx(off["cpu"], abs=1e-5), off


@pytest.mark.parametrize("dtype", [F32, F16])
@pytest.mark.parametrize("name", [name for name in CASES if name not in NOT_IN_PROFILE])
def test_profile_bits(library, backends, name, dtype):
    rope, x, positions, factors = inputs(name, dtype, 131072, tokens=3)
    out = rotated(library, backends["ggml"], rope, x, positions, factors)
    np.testing.assert_array_equal(out, reference.rotate_ggml(rope, x, positions, factors))


@pytest.mark.parametrize("name", [name for name in CASES if name not in NOT_IN_PROFILE and "yarn" not in name])
def test_profile_beside_the_engine(library, backends, name):
    """Up to the fused products and the cosf of its build: the angles at position 131072 are ggml's."""
    rope, x, positions, factors = inputs(name, F32, 131072)
    _, sizes = reference.rotate(rope, x, positions, factors)
    own = rotated(library, backends["cpu"], rope, x, positions, factors)
    off = abs(rotated(library, backends["ggml"], rope, x, positions, factors) - own)
    # Sizes by true angles: those of both are within 0.1 of them.
    assert (off <= 4 * 2.0**-24 * (sizes + 0.2 * abs(x).max())).all(), off.max()


@pytest.mark.parametrize("name", CASES)
def test_taken(library, registries, name):
    rope, x, positions, factors = inputs(name, F32, 10)
    node = Node(library, rope, x, positions if rope.mode & MROPE else positions[0], factors)
    assert node.supported(library.device(registries["exact"]))
    assert node.supported(library.device(registries["ggml"])) == (name not in NOT_IN_PROFILE)
    node.free()


@pytest.mark.parametrize(
    "changes",
    [
        {"freq_base": 0.0},
        {"freq_base": float("nan")},
        {"freq_scale": float("inf")},
        {"freq_scale": 0.0},
        {"attn_factor": 0.0},
        {"attn_factor": -1.0},
        {"n_dims": 0},
        {"ext_factor": 1.0},  # without an original length
        {"ext_factor": 1.0, "n_ctx_orig": 4096, "beta_fast": 0.0},
        {"ext_factor": 1.0, "n_ctx_orig": 4096, "freq_base": 1.0},
        {"mode": 4},
        {"mode": MROPE},  # sections of nothing
        {"mode": MROPE, "sections": (-1, 8, 8, 0)},
        {"mode": MROPE, "sections": (99, 8, 8, 0)},
        {"mode": VISION, "n_dims": 8, "sections": (4, 4, 0, 0)},  # not half the width
    ],
)
def test_left_to_ggml(library, registries, changes):
    rope = replace(Rope(24), **changes)
    positions = np.arange(20 if rope.mode & MROPE else 5)
    node = Node(library, rope, np.zeros((1, 5, 2, 24), F32), positions)
    assert not node.supported(library.device(registries["exact"]))
    assert not node.supported(library.device(registries["ggml"]))
    node.free()


def test_other_nodes(library, registries):
    """Views are taken as BLAS takes them, sums are not."""
    node = Node(library, Rope(24), np.zeros((1, 5, 2, 24), F32), np.arange(5))
    device = library.device(registries["exact"])
    view = library.pointer("ggml_view_tensor", node.context, node.node)
    total = library.pointer("ggml_add", node.context, node.node, node.node)
    assert library.call("ggml_backend_dev_supports_op", device, view, result=ctypes.c_bool)
    assert not library.call("ggml_backend_dev_supports_op", device, total, result=ctypes.c_bool)
    node.free()


def test_empty(library, backends):
    out = rotated(library, backends["exact"], Rope(24), np.zeros((1, 0, 2, 24), F32), np.zeros((1, 0), np.int32))
    assert out.shape == (1, 0, 2, 24)


def test_negative_positions(library, backends):
    """What a context shift has."""
    rope, x, positions, _ = inputs("neox, partial", F32, 5000)
    wanted, sizes = reference.rotate(rope, x, -positions)
    check_exact(rotated(library, backends["exact"], rope, x, -positions), wanted, sizes, 5000)


def test_factors_of_any_kind(library, backends):
    """A factor of infinity stands still, a negative one turns the other way; large ones are what Gemma's files have."""
    rope, x, positions, _ = inputs("neox", F32, 5000)
    factors = np.array([1, -1, np.inf, 1e30, 0.5, -3, 7, 1, 1, 1, 1, 2], F32)
    wanted, sizes = reference.rotate(rope, x, positions, factors)
    check_exact(rotated(library, backends["exact"], rope, x, positions, factors), wanted, sizes, 5000)


@pytest.fixture
def log(library):
    lines = []
    kind = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)
    function = kind(lambda level, text, _: lines.append((level, text.decode())))
    library.call("ggml_log_set", function, None, result=None)
    yield lines
    library.call("ggml_log_set", ctypes.cast(None, kind), None, result=None)


@pytest.mark.parametrize("bad", [0.0, np.nan])
def test_bad_factors(library, backends, log, bad):
    """Known only when the graph runs: it fails, and says which."""
    rope, x, positions, _ = inputs("neox", F32, 50)
    factors = np.ones(12, F32)
    factors[5] = bad
    assert rotated(library, backends["exact"], rope, x, positions, factors) == -1
    assert "[5]" in log[-1][1] and "ROPE" in log[-1][1], log


def test_wrong_numerics(library, tmp_path, log):
    assert load_copy(library, tmp_path, "float128") == 0
    assert any("PHASOR_GGML_NUMERICS is float128, wanted exact or ggml" in text for _, text in log), log


def test_another_version(library, tmp_path, log):
    """A backend built for another ggml refuses itself: here its own text of the version is changed."""
    version = library.call("ggml_version", result=ctypes.c_char_p).split(b"-")[0]
    built, text = b"built for ggml " + version + b"\0", BACKEND.read_bytes()
    assert text.count(built) == 1
    copy = tmp_path / "libggml-phasor-other.so"
    copy.write_bytes(text.replace(built, built.replace(b"ggml 0", b"ggml 9")))
    assert library.load(copy) == 0
    assert any(f"loaded by ggml {version.decode()}; wanted the same version" in text for _, text in log), log


def test_threads_do_not_matter(library, registries, backends):
    function = library.call("ggml_backend_reg_get_proc_address", registries["exact"], b"ggml_backend_set_n_threads")
    set_threads = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int)(function)
    rope, x, positions, _ = inputs("neox, wide base", F32, 9000, tokens=300, heads=8)
    results = []
    for threads in (1, 2, 5):
        set_threads(backends["exact"], threads)
        results.append(rotated(library, backends["exact"], rope, x, positions))
    assert all(np.array_equal(results[0], other) for other in results[1:])


def test_more_plans_than_are_kept(library, backends):
    """Factors that differ from graph to graph: plans make room for one another, and the first comes again."""
    rope, x, positions, _ = inputs("neox", F32, 5000, tokens=2, heads=1, batch=1)
    lists = [np.full(12, 1 + i / 8, F32) for i in range(70)]
    first = [rotated(library, backends["exact"], rope, x, positions, factors) for factors in lists]
    again = rotated(library, backends["exact"], rope, x, positions, lists[0])
    assert np.array_equal(first[0], again)
    wanted, sizes = reference.rotate(rope, x, positions, lists[-1])
    check_exact(first[-1], wanted, sizes, 5000)


def test_rotations_are_counted(library, registries, backends):
    before = library.rotations(registries["exact"])
    rotated(library, backends["exact"], *inputs("neox", F32, 50))
    assert library.rotations(registries["exact"]) == before + 1
