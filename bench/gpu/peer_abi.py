# SPDX-License-Identifier: Apache-2.0
"""peer_abi.h for Python: a call as peers' libraries take it, the functions that they export, and the libraries of a command line."""

from __future__ import annotations

import argparse
import ctypes
from collections.abc import Callable
from typing import NamedTuple

POINTERS = "q k v q_out k_cache v_cache positions cos_sin q_weight k_weight slots indptr indices requests places stream".split()
STRIDES = ["q_stride", "k_stride", "v_stride"]
SIZES = ["tokens", "q_heads", "k_heads", "head_dim", "page_size", "request_count"]
FLOATS = ["epsilon", "q_scale", "kv_scale"]


class PeerCall(ctypes.Structure):
    """PeerCall of peer_abi.h, field by field."""

    _fields_ = [
        *((name, ctypes.c_void_p) for name in POINTERS[:3]),
        *((name, ctypes.c_int64) for name in STRIDES),
        *((name, ctypes.c_void_p) for name in POINTERS[3:-1]),
        *((name, ctypes.c_int64) for name in SIZES),
        ("base", ctypes.c_double),
        *((name, ctypes.c_float) for name in FLOATS),
        ("stream", ctypes.c_void_p),
    ]


class Exported(NamedTuple):
    """A function of a library: what it is called there and in tables, which task it does, and how far off it may be (Phasor: of the definition; others: of Phasor).

    `off` is a share of a pair's length. One step of bf16 is up to 2^-7 of a number, one of e4m3 2^-3: whose angles are right may round to the
    neighbour.
    """

    symbol: str
    name: str
    task: str
    off: float


STEP_OF_BF16, STEP_OF_E4M3 = 2.0**-7, 2.0**-3
# Tasks: "rotate" q and k in place; "norm" of each head of q and k, then rotate, in place; "store": rotate q and k in place, write k and v to slots;
# "norm_store": the same after a norm; "append": rotate q and k, write q to q_out and k and v to pages, in e4m3.
LIBRARIES = {
    "flashinfer": [
        # Its angles are float32 products and its sines the fast ones: an error that grows with the position.
        Exported("flashinfer_apply_rope_pos_ids", "FlashInfer, angles in the kernel", "rotate", 2.0**-4),
        Exported("flashinfer_apply_rope_pos_ids_cos_sin_cache", "FlashInfer, cos/sin cache", "rotate", STEP_OF_BF16),
        Exported("flashinfer_rope_quantize_append_paged_kv_cache", "FlashInfer RopeQuantizeAppendPagedKVCache", "append", STEP_OF_E4M3),
    ],
    "sglang": [
        Exported("sglang_fused_rope", "SGLang FusedRopeKernel", "rotate", STEP_OF_BF16),
        Exported("sglang_fused_rope_store", "SGLang FusedRopeKernel with store", "store", STEP_OF_BF16),
    ],
    "vllm": [
        Exported("vllm_rotary_embedding", "vLLM rotary_embedding", "rotate", STEP_OF_BF16),
        Exported("vllm_fused_qk_norm_rope", "vLLM fused_qk_norm_rope", "norm", STEP_OF_BF16),
        Exported("vllm_fused_qk_norm_rope_and_cache", "vLLM fused_qk_norm_rope, reshape_and_cache_flash", "norm_store", STEP_OF_BF16),
    ],
}
COPY = Exported("phasor_copy", "copy", "copy", 0.0)  # q_stride bytes at q read, k_stride bytes at q_out written
TASKS = ["rotate", "norm", "store", "norm_store", "append"]
OURS = [Exported(f"phasor_{task}", "Phasor", task, STEP_OF_E4M3 if task == "append" else STEP_OF_BF16) for task in TASKS]


class Function(NamedTuple):
    exported: Exported
    call: Callable[[PeerCall], None]


def load(path: str, wanted: list[Exported]) -> list[Function]:
    """What a library exports of `wanted`; one that has nothing of it is refused, with what it lacks."""
    library = ctypes.CDLL(path)
    found = []
    for exported in wanted:
        function = getattr(library, exported.symbol, None)
        if function is None:
            print(f"{path} has no {exported.symbol}")
            continue
        function.restype, function.argtypes = ctypes.c_int, [ctypes.POINTER(PeerCall)]

        def call(arguments: PeerCall, function=function, symbol=exported.symbol) -> None:
            if code := function(ctypes.byref(arguments)):
                raise RuntimeError(f"{symbol}: CUDA error {code}")

        found.append(Function(exported, call))
    if not found:
        raise SystemExit(f"peers.py: {path} exports none of {', '.join(e.symbol for e in wanted)}")
    return found


def parse(arguments: list[str], description: str | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="peers.py", description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("json", nargs="?", help="where results go")
    parser.add_argument("--phasor", metavar="LIBRARY", required=True, help="Phasor's functions, bench/gpu/ours.cu as a shared library")
    for name in LIBRARIES:
        parser.add_argument(f"--{name}", metavar="LIBRARY", help="a library built elsewhere that exports " + ", ".join(e.symbol for e in LIBRARIES[name]))
    return parser.parse_args(arguments)
