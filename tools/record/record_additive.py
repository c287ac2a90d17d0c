#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Records what installed Hugging Face models and PyTorch make of additive encodings, in float64, into tests/golden/additive.txt.

Runs the models' own modules. They force float32; here every name of float32 means float64, so that a test can tell a wrong channel or frequency from
rounding. Usage: record_additive.py > tests/golden/additive.txt
"""
import sys
from types import SimpleNamespace

import torch
import transformers
from transformers.models.detr import modeling_detr as detr
from transformers.models.m2m_100 import modeling_m2m_100 as m2m
from transformers.models.qwen2_5_omni import modeling_qwen2_5_omni as omni
from transformers.models.roformer import modeling_roformer as roformer
from transformers.models.vibevoice import modeling_vibevoice as vibevoice
from transformers.models.vit_mae import modeling_vit_mae as mae
from transformers.models.whisper import modeling_whisper as whisper

torch.set_default_dtype(torch.float64)
torch.float = torch.float32 = torch.float64
torch.FloatTensor = torch.DoubleTensor
torch.Tensor.float = torch.Tensor.double

# A batch of two images of 3 x 4, of which the second has a padded column and row.
MASK = [[[1, 1, 1, 1]] * 3, [[1, 1, 1, 0], [1, 1, 1, 0], [0, 0, 0, 0]]]
# 1 is the padding.
TOKENS = [[5, 9, 7, 1, 1], [1, 8, 3, 4, 6]]


def numbers(*shape):
    """Eighths that every dtype holds. The test makes the same."""
    count = torch.Size(shape).numel()
    return ((torch.arange(count) * 37 + 11) % 61 - 30).reshape(shape) / 8


def detr_sine(normalize):
    module = detr.DetrSinePositionEmbedding(10, normalize=normalize)
    out = module(torch.Size([2, 1, 3, 4]), torch.device("cpu"), torch.float64, torch.tensor(MASK).bool())
    return out.permute(0, 2, 3, 1)


def detr_learned():
    module = detr.DetrLearnedPositionEmbedding(3)
    module.column_embeddings.weight.data = numbers(50, 3)
    module.row_embeddings.weight.data = numbers(50, 3) * 2
    return module(torch.Size([1, 1, 3, 4]), torch.device("cpu"), torch.float64).permute(0, 2, 3, 1).detach()


def roformer_table(width):
    return roformer.RoFormerSinusoidalPositionalEmbedding(7, width).create_weight()


def mae_table():
    """As ViTMAEEmbeddings initialises: the halves swapped, a square grid, no CLS."""
    out = mae.build_2d_sinusoidal_position_embedding(3, 3, 16, dtype=torch.float64)
    return torch.cat([out[:, 8:], out[:, :8]], dim=-1)


def resample(kind, size, to, align):
    """(rows, columns, D) of `numbers`; 1-D tables have one row."""
    table = numbers(*size)
    if size[0] == 1 and kind == "linear":
        return torch.nn.functional.interpolate(table.permute(0, 2, 1), size=to[1], mode="linear", align_corners=align).permute(0, 2, 1)
    mode = {"linear": "bilinear", "cubic": "bicubic"}[kind]
    out = torch.nn.functional.interpolate(table.permute(2, 0, 1)[None], size=to, mode=mode, align_corners=align)
    return out[0].permute(1, 2, 0)


def embedding_gradient(padding):
    table = torch.nn.Embedding(6, 3, padding_idx=padding)
    table(torch.tensor([[4, 0, 4], [1, 4, 0]])).backward(numbers(2, 3, 3))
    return table.weight.grad


SINUSOIDS = {
    "whisper": lambda: whisper.sinusoids(9, 12),
    "m2m100": lambda: m2m.M2M100SinusoidalPositionalEmbedding(20, 13, padding_idx=1)(torch.tensor(TOKENS)),
    "roformer": lambda: roformer_table(12),
    "roformer_odd": lambda: roformer_table(9),
    "mae": mae_table,
    "detr": lambda: detr_sine(False),
    "detr_normalised": lambda: detr_sine(True),
    "detr_learned": detr_learned,
    "timestep_cos_first": lambda: vibevoice.VibeVoiceDiffusionHeadSinusoidalEmbedding(
        SimpleNamespace(frequency_embedding_size=14, diffusion_max_period=10000)
    )(torch.tensor([0, 0.25, 999, 17.5])),
    "timestep_scaled": lambda: omni.SinusPositionEmbedding(14)(torch.tensor([0, 0.25, 1, 0.7]), scale=1000),
    "embedding_gradient": lambda: embedding_gradient(None),
    "embedding_gradient_padded": lambda: embedding_gradient(4),
}
RESAMPLED = [((1, 5, 2), (1, 9)), ((1, 7, 2), (1, 3)), ((3, 4, 2), (5, 7)), ((5, 4, 1), (2, 9)), ((3, 3, 2), (3, 3)), ((2, 5, 1), (1, 6))]


def show(title, out):
    print("case", *title)
    print("values", *(f"{value:.17g}" for value in out.flatten().tolist()))


def main():
    print(f"# Made by tools/record/record_additive.py with transformers {transformers.__version__}, torch {torch.__version__}, in float64.")
    for name, record in SINUSOIDS.items():
        show([name], record())
    for kind in ("linear", "cubic"):
        for align in (False, True):
            for size, to in RESAMPLED:
                show(["resample", kind, int(align), *size, *to], resample(kind, size, to, align))
    return 0


if __name__ == "__main__":
    sys.exit(main())
