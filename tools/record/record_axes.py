#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Records what the multi-axis rotations of installed Hugging Face models give, in float64, into tests/golden/axes.txt.

Runs the models' own modules. They force float32; here every name of float32 means float64, so that the numbers are right to 1e-12 and a test can
tell a wrong axis or frequency from rounding. Usage: record_axes.py > tests/golden/axes.txt
"""
import sys
from types import SimpleNamespace

import torch
import transformers
from transformers.models.dinov3_vit import modeling_dinov3_vit as dinov3
from transformers.models.ernie4_5_vl_moe import modeling_ernie4_5_vl_moe as ernie
from transformers.models.gemma4 import modeling_gemma4 as gemma4
from transformers.models.glm4v import modeling_glm4v as glm4v
from transformers.models.hunyuan_vl import modeling_hunyuan_vl as hunyuan
from transformers.models.llama4 import modeling_llama4 as llama4
from transformers.models.pixtral import modeling_pixtral as pixtral
from transformers.models.qwen2_vl import modeling_qwen2_vl as qwen2
from transformers.models.qwen3_5 import modeling_qwen3_5 as qwen35
from transformers.models.qwen3_vl import modeling_qwen3_vl as qwen3
from transformers.models.sam2_video import modeling_sam2_video as sam2
from transformers.models.vjepa2 import modeling_vjepa2 as vjepa2

torch.set_default_dtype(torch.float64)
torch.float = torch.float32 = torch.float64
torch.Tensor.float = torch.Tensor.double

# (axes, tokens): text, then two places of an image far from the diagonal.
TEXT3 = [[3, 7, 7], [3, 9, 120], [3, 40, 11]]
TEXT4 = [[5, 6, 900], [5, 30, 2], [5, 1, 77], [5, 400, 13]]
GRID = [[1, 6, 0], [2, 0, 31]]


def query(tokens, width):
    """(1, 1, tokens, width): eighths, which every dtype holds exactly. The test makes the same."""
    return torch.tensor([[(t * 37 + c * 11) % 17 - 8 for c in range(width)] for t in range(tokens)])[None, None] / 8


def config(head_dim, theta, **rope):
    return SimpleNamespace(
        head_dim=head_dim, hidden_size=head_dim, embed_dim=head_dim, num_attention_heads=1, max_position_embeddings=4096,
        rope_parameters={"rope_type": rope.pop("rope_type", "default"), "rope_theta": theta, **rope},
    )


def text(module, embedding, apply, spec):
    """A model of text: (axes, 1, T) positions, cos and sin of (1, T, R)."""
    cfg, positions = spec
    q = query(len(positions[0]), cfg.head_dim)
    cos, sin = embedding(cfg)(q, torch.tensor(positions)[:, None])
    return positions, apply(q, q, cos, sin)[0]


def vision(embedding, apply, cfg, positions):
    """A model of images: (N, 2) positions, cos and sin of (N, D); q as (N, heads, D)."""
    q = query(len(positions[0]), cfg.head_dim)
    cos, sin = embedding(cfg)(q, torch.tensor(positions).T)
    return positions, apply(q[0, 0][:, None], q[0, 0][:, None], cos, sin)[0].transpose(0, 1)


def record_hunyuan():
    # The module of this release splits cat(freq, freq) by doubled sections, which gives the two lanes of a pair different axes;
    # the published code and vLLM chunk the pairs. Frequencies are the module's, chunks as published.
    cfg = config(128, 10000.0, rope_type="dynamic", alpha=1000.0, mrope_section=[16, 16, 16, 16])
    inv_freq = hunyuan.HunYuanVLRotaryEmbedding(cfg).inv_freq
    q = query(3, 128)
    angles = torch.tensor(TEXT4)[:, None, :, None] * inv_freq
    angles = torch.cat([m[i] for i, m in enumerate(angles.split([16] * 4, dim=-1))], dim=-1)
    angles = torch.cat([angles, angles], dim=-1)
    return TEXT4, hunyuan.apply_rotary_pos_emb(q, q, angles.cos(), angles.sin())[0]


def record_pixtral():
    cfg = config(64, 10000.0, rope_type="axial")
    q = query(3, 64)
    cos, sin = pixtral.PixtralVisionRotaryEmbedding(cfg)(q, torch.tensor(GRID).T)
    return GRID, pixtral.apply_rotary_pos_emb(q[0], q[0], cos, sin, unsqueeze_dim=0)[0]


def record_llama4():
    cfg = config(88, 10000.0)
    cfg.image_size, cfg.patch_size = 42, 14  # 3 by 3 patches, then the class token
    q = query(10, 88).transpose(1, 2)  # (1, tokens, heads, D)
    out = llama4.vision_apply_rotary_emb(q, q, llama4.Llama4VisionRotaryEmbedding(cfg)(q))[0]
    x = [i % 3 + 1 for i in range(9)] + [0]
    y = [i // 3 + 1 for i in range(9)] + [0]
    keep = [0, 5, 9]
    return [[x[i] for i in keep], [y[i] for i in keep], keep], out[0, keep, 0]


def record_sam2():
    cfg = config(64, 10000.0, rope_type="axial")
    cfg.memory_attention_hidden_size, cfg.memory_attention_downsample_rate, cfg.memory_attention_num_attention_heads = 64, 1, 1
    q = query(3, 64)
    cos, sin = sam2.Sam2VideoVisionRotaryEmbedding(cfg)(q, torch.tensor(GRID).T)
    return GRID, sam2.apply_rotary_pos_emb_2d(q, q, cos, sin)[0]


def record_vjepa2():
    positions = torch.tensor([[1, 5, 0], [2, 0, 13], [7, 3, 1]])
    holder = SimpleNamespace(attention_head_size=64, d_dim=20, h_dim=20, w_dim=20)
    return positions.tolist(), vjepa2.VJEPA2RopeAttention.apply_rotary_embeddings(holder, query(3, 64), tuple(positions.double()))


def record_dinov3():
    cfg = config(64, 100.0)
    cfg.rope_theta, cfg.image_size, cfg.patch_size = 100.0, 48, 16  # 3 by 2 patches and 2 prefix tokens
    q = query(8, 64)
    module = dinov3.DINOv3ViTRopePositionEmbedding(cfg).eval()
    cos, sin = module(torch.zeros(1, 3, 48, 32))
    out = dinov3.apply_rotary_pos_emb(q, q, cos, sin)[0]
    coordinates = dinov3.get_patches_center_coordinates(3, 2, dtype=torch.float64, device=q.device)
    rows = torch.cat([torch.zeros(2, 2), coordinates]).T.tolist()
    keep = [1, 2, 7]
    return [[row[i] for i in keep] for row in rows] + [keep], out[0, 0, keep]


def record_gemma4():
    cfg = config(64, 100.0, rope_type="axial")
    q = query(3, 64).transpose(1, 2)  # (1, tokens, heads, D)
    positions = torch.tensor(GRID).T[None]  # (1, tokens, 2)
    cos, sin = gemma4.Gemma4VisionRotaryEmbedding(cfg)(q, positions)
    return GRID, gemma4.apply_multidimensional_rope(q, cos, sin, positions)[0, :, 0]


RECORDS = {
    "qwen2_vl": lambda: text(qwen2, qwen2.Qwen2VLRotaryEmbedding, qwen2.apply_rotary_pos_emb, (config(128, 1e6, mrope_section=[16, 24, 24]), TEXT3)),
    "qwen3_vl": lambda: text(qwen3, qwen3.Qwen3VLTextRotaryEmbedding, qwen3.apply_rotary_pos_emb, (config(128, 5e6, mrope_section=[24, 20, 20]), TEXT3)),
    "qwen3_5": lambda: text(
        qwen35, qwen35.Qwen3_5TextRotaryEmbedding, qwen35.apply_rotary_pos_emb,
        (config(96, 1e7, mrope_section=[11, 11, 10], partial_rotary_factor=2 / 3), TEXT3),
    ),
    "glm4v": lambda: text(
        glm4v, glm4v.Glm4vTextRotaryEmbedding, glm4v.apply_rotary_pos_emb, (config(128, 1e4, mrope_section=[8, 12, 12], partial_rotary_factor=0.5), TEXT3)
    ),
    "ernie4_5_vl": lambda: text(ernie, ernie.Ernie4_5_VLMoeTextRotaryEmbedding, ernie.apply_rotary_pos_emb, (config(128, 5e5, mrope_section=[22, 22, 20]), TEXT3)),
    "hunyuan_vl": record_hunyuan,
    "qwen_vision": lambda: vision(qwen2.Qwen2VLVisionRotaryEmbedding, qwen2.apply_rotary_pos_emb_vision, config(80, 1e4, rope_type="axial"), GRID),
    "pixtral": record_pixtral,
    "llama4_vision": record_llama4,
    "sam2": record_sam2,
    "vjepa2": record_vjepa2,
    "dinov3": record_dinov3,
    "gemma4_vision": record_gemma4,
}


def main():
    print(f"# Made by tools/record/record_axes.py with transformers {transformers.__version__}, torch {torch.__version__}, in float64.")
    print("# model; its positions, an axis a line (a last line of token numbers where they are not 0, 1, 2); its q after the rotation, a token a line.")
    for name, record in RECORDS.items():
        positions, out = record()
        out = out.reshape(len(positions[0]), -1)
        print(f"model {name} {len(positions)} {out.shape[0]} {out.shape[1]}")
        for row in positions:
            print(*(f"{p:.17g}" for p in row))
        for row in out.tolist():
            print(*(f"{value:.13g}" for value in row))
    return 0


if __name__ == "__main__":
    sys.exit(main())
