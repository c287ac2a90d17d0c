# SPDX-License-Identifier: Apache-2.0
"""ggml's own scheduler with our backend before its CPU, found by GGML_BACKEND_PATH: which nodes it gives to whom, and what comes out. Run
by tools/python/ggml_test.sh; not collected by make test."""

from __future__ import annotations

import ctypes
import shutil
from ctypes import c_bool, c_float, c_int64, c_size_t, c_void_p

import numpy as np
import pytest
import reference
from library import BACKEND, NORMAL, InitParams, Library, Rope, variable

HEADS, TOKENS = 3, 11


@pytest.fixture(params=["exact", "ggml"])
def engine(request, tmp_path):
    """The library, our registry and backends: ours, then the CPU, as llama.cpp lines them up."""
    library = Library()
    copy = tmp_path / f"libggml-phasor-{request.param}.so"
    shutil.copy(BACKEND, copy)
    with variable("PHASOR_GGML_NUMERICS", request.param), variable("GGML_BACKEND_PATH", str(copy)):
        library.call("ggml_backend_load_all", result=None)
    registry = library.pointer("ggml_backend_reg_by_name", b"Phasor")
    assert registry, "GGML_BACKEND_PATH was not followed"
    backends = [library.backend(library.device(registry)), library.cpu()]
    yield request.param, library, registry, backends
    for backend in backends:
        library.call("ggml_backend_free", backend, result=None)
    library.call("ggml_backend_unload", registry, result=None)


def layer(library, context, x, positions, factors, rope):
    """Twice the values, rotated, and half of that: what the CPU does stands on both sides of a rotation."""
    twice = library.pointer("ggml_scale", context, x, c_float(2))
    turned = library.pointer("ggml_rope_ext", context, twice, positions, factors, rope.n_dims, rope.mode, *rope.numbers())
    return library.pointer("ggml_scale", context, turned, c_float(0.5))


def run(library, backends, ropes, x, positions, factors):
    """The ropes one after the other, scheduled over the backends."""
    call, pointer = library.call, library.pointer
    context = pointer("ggml_init", InitParams(1 << 20, None, True))
    tensors = [
        pointer("ggml_new_tensor_3d", context, 0, *(c_int64(n) for n in reversed(x.shape))),
        pointer("ggml_new_tensor_1d", context, 26, c_int64(positions.size)),
        pointer("ggml_new_tensor_1d", context, 0, c_int64(factors.size)),
    ]
    for tensor in tensors:
        call("ggml_set_input", tensor, result=None)
    out = tensors[0]
    for rope, has_factors in ropes:
        out = layer(library, context, out, tensors[1], tensors[2] if has_factors else None, rope)
    call("ggml_set_output", out, result=None)
    graph = pointer("ggml_new_graph", context)
    call("ggml_build_forward_expand", graph, out, result=None)
    line = (c_void_p * len(backends))(*backends)
    schedule = pointer("ggml_backend_sched_new", line, None, len(backends), c_size_t(2048), c_bool(False), c_bool(True))
    assert call("ggml_backend_sched_alloc_graph", schedule, graph, result=c_bool)
    for tensor, array in zip(tensors, (x, positions, factors), strict=True):
        if call("ggml_get_data", tensor):  # what no node reads has no memory
            call("ggml_backend_tensor_set", tensor, array.ctypes.data_as(c_void_p), c_size_t(0), c_size_t(array.nbytes), result=None)
    assert call("ggml_backend_sched_graph_compute", schedule, graph, result=ctypes.c_int) == 0
    result = np.empty_like(x)
    call("ggml_backend_tensor_get", out, result.ctypes.data_as(c_void_p), c_size_t(0), c_size_t(result.nbytes), result=None)
    call("ggml_backend_sched_free", schedule, result=None)
    call("ggml_free", context, result=None)
    return result


def values(width):
    random = np.random.default_rng(width)
    x = random.standard_normal((TOKENS, HEADS, width)).astype(np.float32)
    positions = np.sort(random.integers(0, 131072, TOKENS)).astype(np.int32)
    return x, positions, np.exp(random.uniform(-1, 3, width // 2)).astype(np.float32)


def test_rotations_go_to_phasor(engine):
    """Three ropes of two kinds: three rotations of ours, and their values."""
    numerics, library, registry, backends = engine
    ropes = [(Rope(24), False), (Rope(16, NORMAL), True), (Rope(24), False)]
    x, positions, factors = values(24)
    before = library.rotations(registry)
    out = run(library, backends, ropes, x, positions, factors)
    assert library.rotations(registry) - before == 3
    wanted = x[None]
    for rope, has_factors in ropes:
        given = factors if has_factors else None
        if numerics == "ggml":
            wanted = reference.rotate_ggml(rope, wanted, positions[None], given)
        else:
            wanted = reference.rotate(rope, wanted, positions[None], given)[0]
    if numerics == "ggml":
        np.testing.assert_array_equal(out, wanted[0])  # factors of two change no bit
    else:
        np.testing.assert_allclose(out, wanted[0].astype(np.float64), rtol=0, atol=3 * 2.0**-22 * abs(x).max())


def test_what_is_not_taken_stays_with_ggml(engine):
    """YaRN together with factors is not in profile ggml: there ggml's CPU runs it, bit for bit as without us."""
    numerics, library, registry, backends = engine
    rope = Rope(24, freq_scale=0.5, n_ctx_orig=4096, ext_factor=1.0)
    before = library.rotations(registry)
    out = run(library, backends, [(rope, True)], *values(24))
    assert library.rotations(registry) - before == (numerics == "exact")
    own = run(library, backends[1:], [(rope, True)], *values(24))
    assert np.array_equal(out, own) == (numerics == "ggml")
