# SPDX-License-Identifier: Apache-2.0
"""onnxruntime's RotaryEmbedding on q and k in one graph, inputs and outputs bound, tables given. It has no bf16 on the CPU."""

from __future__ import annotations

import numpy as np
import onnxruntime
from harness import BASE, HEAD_DIM, K_HEADS, Q_HEADS, Case, Contestant
from onnx import TensorProto, helper

KINDS = {"f32": (TensorProto.FLOAT, np.float32), "f16": (TensorProto.FLOAT16, np.float16)}
LENGTH = 4096


def session(case: Case, kind: int) -> onnxruntime.InferenceSession:
    nodes, inputs, outputs = [], [], []
    for name, heads in (("q", Q_HEADS), ("k", K_HEADS)):
        nodes.append(
            helper.make_node(
                "RotaryEmbedding",
                [name, "positions", "cos", "sin"],
                [f"{name}_out"],
                domain="com.microsoft",
                num_heads=heads,
                interleaved=0,
            )
        )
        shape = [1, case.tokens, heads * HEAD_DIM]
        inputs.append(helper.make_tensor_value_info(name, kind, shape))
        outputs.append(helper.make_tensor_value_info(f"{name}_out", kind, shape))
    inputs.append(helper.make_tensor_value_info("positions", TensorProto.INT64, [1, case.tokens]))
    inputs += [helper.make_tensor_value_info(name, kind, [LENGTH, HEAD_DIM // 2]) for name in ("cos", "sin")]
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(helper.make_graph(nodes, "rotary", inputs, outputs), opset_imports=opsets, ir_version=10)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = case.threads
    options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def contestants(case: Case) -> list[Contestant]:
    if case.dtype not in KINDS:
        return []
    kind, dtype = KINDS[case.dtype]
    q, k = (x.reshape(1, case.tokens, -1).numpy() for x in case.inputs())
    angles = np.arange(LENGTH)[:, None] * BASE ** (-np.arange(HEAD_DIM // 2) / (HEAD_DIM // 2))
    feeds = {
        "q": q,
        "k": k,
        "positions": case.position_ids()[None].numpy(),
        "cos": np.cos(angles).astype(dtype),
        "sin": np.sin(angles).astype(dtype),
    }
    values = {name: onnxruntime.OrtValue.ortvalue_from_numpy(array) for name, array in feeds.items()}
    made = session(case, kind)
    binding = made.io_binding()
    for name, value in values.items():
        binding.bind_ortvalue_input(name, value)
    results = [onnxruntime.OrtValue.ortvalue_from_numpy(np.empty_like(x)) for x in (q, k)]
    for name, value in zip(("q_out", "k_out"), results, strict=True):
        binding.bind_ortvalue_output(name, value)

    def output() -> tuple[np.ndarray, ...]:
        made.run_with_iobinding(binding)
        return tuple(r.numpy().reshape(1, case.tokens, -1, HEAD_DIM) for r in results)

    return [Contestant("onnxruntime RotaryEmbedding, bound tensors", lambda: made.run_with_iobinding(binding), output)]
