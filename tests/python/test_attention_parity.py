# SPDX-License-Identifier: Apache-2.0
"""phasor.attention in the place of the attention of transformers' own modules: their outputs and the gradients of all their parameters."""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from torch import Tensor, nn
from transformers.cache_utils import DynamicCache

import phasor

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
from record_attention_parts import causal, float64_only, random, randomize  # noqa: E402

H, D, T, B = 2, 4, 9, 2


def code(model: str) -> Any:
    return importlib.import_module(f"transformers.models.{model}.modeling_{model}")


@dataclass
class Pair:
    """A module, how it is called, and the same with phasor's attention between its projections."""

    module: nn.Module
    x: Tensor
    theirs: Callable[[Tensor], Tensor]
    ours: Callable[[Tensor], Tensor]


def heads(x: Tensor, count: int = H) -> Tensor:
    return x.unflatten(-1, (count, -1))


def additive(allowed: Tensor, dtype: torch.dtype) -> Tensor:
    """(B, 1, Tq, Tk) of zeros and least numbers, from (B, Tq, Tk)."""
    return torch.zeros(allowed.shape, dtype=dtype).masked_fill(~allowed, torch.finfo(dtype).min)[:, None]


def sinusoids(first: int, end: int, width: int, **spec: Any) -> Tensor:
    """Rows of the distances first, first - 1, ..., end, in the default dtype."""
    rows = phasor.xl_sinusoids(np.arange(first, end - 1, -1), phasor.XlSinusoids(width=width, **spec), np.float64)
    return torch.from_numpy(rows).to(torch.get_default_dtype())


def t5(decoder: bool, past: int = 0) -> Pair:
    config = transformers.T5Config(
        d_model=6, d_kv=3, num_heads=H, relative_attention_num_buckets=8, relative_attention_max_distance=6, dropout_rate=0.0, is_decoder=decoder,
        attn_implementation="eager",
    )  # fmt: skip
    layer = code("t5").T5Attention(config, has_relative_attention_bias=True, layer_idx=0)
    mask = torch.ones(B, T, dtype=torch.bool)
    if not decoder:
        mask[1, 6:] = False

    def theirs(x: Tensor) -> Tensor:
        cache = DynamicCache() if past else None
        if past:
            layer(x[:, :past], mask=additive(causal(past, past), x.dtype), past_key_values=cache)
        allowed = mask[:, None, :] & (causal(T - past, T) if decoder else True)
        return layer(x[:, past:], mask=additive(allowed, x.dtype), past_key_values=cache)[0]

    def ours(x: Tensor) -> Tensor:
        scheme = phasor.T5(layer.relative_attention_bias.weight.T, not decoder, 6)
        q, k, v = heads(layer.q(x[:, past:])), heads(layer.k(x)), heads(layer.v(x))
        return layer.o(phasor.attention(q, k, v, scheme, decoder, scale=1.0, key_mask=mask).flatten(2))

    return Pair(layer, random((B, T, 6), 2), theirs, ours)


def deberta(kinds: tuple[str, ...], buckets: int, farthest: int, width: int) -> Pair:
    """Widths whose scale is exact in float32, in which the module takes its root."""
    config = transformers.DebertaV2Config(
        hidden_size=H * width, num_attention_heads=H, pos_att_type=list(kinds), relative_attention=True, position_buckets=buckets,
        max_relative_positions=farthest, share_att_key=False, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    layer = code("deberta_v2").DisentangledSelfAttention(config)
    layer.rows = nn.Parameter(torch.empty(2 * (buckets if buckets > 0 else farthest), H * width))  # the encoder's rel_embeddings
    mask = torch.ones(1, T, dtype=torch.bool)
    mask[0, 4] = False

    def ours(x: Tensor) -> Tensor:
        keys = heads(layer.pos_key_proj(layer.rows)) if "c2p" in kinds else None
        queries = heads(layer.pos_query_proj(layer.rows)) if "p2c" in kinds else None
        scheme = phasor.Deberta(keys, queries, max(buckets, 0), farthest)
        q, k, v = heads(layer.query_proj(x)), heads(layer.key_proj(x)), heads(layer.value_proj(x))
        return phasor.attention(q, k, v, scheme, scale=(width * (1 + len(kinds))) ** -0.5, key_mask=mask).flatten(2)

    def theirs(x: Tensor) -> Tensor:
        return layer(x, mask[:, None, None, :].expand(1, 1, T, T), rel_embeddings=layer.rows)[0]

    return Pair(layer, random((1, T, H * width), 2), theirs, ours)


def deberta_fewer_queries() -> Pair:
    """Hugging Face counts queries and keys from 0 there, and only c2p has a shape that fits."""
    pair = deberta(("c2p",), 4, 8, 2)
    layer, some = pair.module, 5

    def theirs(x: Tensor) -> Tensor:
        return layer(x, torch.ones(1, 1, some, T, dtype=torch.bool), query_states=x[:, 2 : 2 + some], rel_embeddings=layer.rows)[0]

    def ours(x: Tensor) -> Tensor:
        scheme = phasor.Deberta(heads(layer.pos_key_proj(layer.rows)), None, 4, 8)
        q, k, v = heads(layer.query_proj(x[:, 2 : 2 + some])), heads(layer.key_proj(x)), heads(layer.value_proj(x))
        return phasor.attention(q, k, v, scheme, scale=0.5, query_positions=0, key_positions=0).flatten(2)

    return Pair(layer, pair.x, theirs, ours)


def xlnet(kind: str, both_ways: bool, clamp: int, memory: int, segments: bool = True) -> Pair:
    width = H * D
    config = transformers.XLNetConfig(
        d_model=width, n_head=H, n_layer=1, d_inner=4, vocab_size=8, attn_type=kind, bi_data=both_ways, clamp_len=clamp, dropout=0.0
    )
    whole = code("xlnet").XLNetModel(config)
    layer = whole.layer[0].rel_attn
    tokens = T - memory
    of = torch.tensor([[0, 1, 0, 1, 1, 0, 1, 2, 2], [0, 0, 0, 1, 1, 2, 2, 1, 0]])
    at = of[:, memory:].contiguous()
    hidden = ~causal(tokens, T)[0] if kind == "uni" else torch.zeros(tokens, T, dtype=torch.bool)

    def theirs(x: Tensor) -> Tensor:
        differ = nn.functional.one_hot((at.T[:, None] != of.T[None]).long(), 2).to(x.dtype) if segments else None
        rows = whole.relative_positional_encoding(tokens, T, bsz=B)
        mask = hidden[:, :, None, None].to(x.dtype).expand(-1, -1, B, 1)
        x = x.transpose(0, 1)
        return layer(x[memory:], None, mask, None, rows, differ, mems=x[:memory] if memory else None)[0].transpose(0, 1)

    def ours(x: Tensor) -> Tensor:
        last = 1 - tokens if kind == "bi" else 0
        there = sinusoids(T, last, width, clamp=max(clamp, 0))
        back = torch.cat([-there[:, : width // 2], there[:, width // 2 :]], 1)  # sines of the other sign: the other direction
        rows = torch.stack([there, back if both_ways else there])
        xl = phasor.TransformerXL(torch.einsum("brm,mhd->brhd", rows, layer.r), T, layer.r_w_bias, layer.r_r_bias)
        scheme = phasor.XLNet(xl, layer.seg_embed, layer.r_s_bias, at, of) if segments else xl
        q, k, v = (torch.einsum("btm,mhd->bthd", y, w) for y, w in ((x[:, memory:], layer.q), (x, layer.k), (x, layer.v)))
        out = phasor.attention(q, k, v, scheme, kind == "uni")
        return layer.post_attention(x[:, memory:].transpose(0, 1), out.transpose(0, 1)).transpose(0, 1)

    return Pair(layer, random((B, T, width), 2), theirs, ours)


def mpt() -> Pair:
    layer = code("mpt").MptAttention(transformers.MptConfig(d_model=3 * D, n_heads=3), layer_idx=0)

    def theirs(x: Tensor) -> Tensor:
        return layer(x, code("mpt").build_mpt_alibi_tensor(3, T), attention_mask=~causal(T, T)[:, None])[0]

    def ours(x: Tensor) -> Tensor:
        q, k, v = (heads(part, 3) for part in layer.Wqkv(x).chunk(3, dim=2))
        at = torch.arange(1 - T, 1)
        out = phasor.attention(q, k, v, phasor.Alibi(form="key_position"), True, query_positions=at, key_positions=at)
        torch.testing.assert_close(out, phasor.attention(q, k, v, phasor.Alibi(), True))  # equal where softmax does not see the row's part
        return layer.out_proj(out.flatten(2))

    return Pair(layer, random((B, T, 3 * D), 2), theirs, ours)


def bloom() -> Pair:
    config = transformers.BloomConfig(hidden_size=3 * D, n_head=3, hidden_dropout=0.0, attention_dropout=0.0)
    layer = code("bloom").BloomAttention(config, layer_idx=0)
    mask = torch.tensor([[1] * T, [1, 0, 1, 1, 0, 1, 1, 1, 0]])

    def theirs(x: Tensor) -> Tensor:
        alibi = code("bloom").build_alibi_tensor(mask, 3, x.dtype)
        return layer(x, x, alibi, additive(mask[:, None, :].bool() & causal(T, T), x.dtype))[0]

    def ours(x: Tensor) -> Tensor:
        q, k, v = heads(layer.query_key_value(x), 3).unflatten(-1, (3, D)).unbind(-2)
        count = mask.cumsum(-1) - 1  # a padding query sees the keys before it, as its place in the tensor does
        options = {"key_mask": mask.bool(), "query_positions": count, "key_positions": count * mask}
        return x + layer.dense(phasor.attention(q, k, v, phasor.Alibi(form="key_position"), True, **options).flatten(2))

    return Pair(layer, random((B, T, 3 * D), 2), theirs, ours)


def wav2vec2_bert(kind: str) -> Pair:
    config = transformers.Wav2Vec2BertConfig(
        hidden_size=H * D, num_attention_heads=H, position_embeddings_type=kind, left_max_position_embeddings=4, right_max_position_embeddings=2,
        attention_dropout=0.0, max_source_positions=20, attn_implementation="eager",
    )  # fmt: skip
    layer = code("wav2vec2_bert").Wav2Vec2BertSelfAttention(config)
    mask = torch.ones(B, T, dtype=torch.bool)
    mask[1, 5:] = False

    def theirs(x: Tensor) -> Tensor:
        rows = code("wav2vec2_bert").Wav2Vec2BertRelPositionalEmbedding(config)(x) if kind == "relative" else None
        return layer(x, additive(mask[:, None, :].expand(-1, T, -1), x.dtype), relative_position_embeddings=rows)[0]

    def ours(x: Tensor) -> Tensor:
        q, k, v = heads(layer.linear_q(x)), heads(layer.linear_k(x)), heads(layer.linear_v(x))
        if kind == "relative":
            rows = sinusoids(T - 1, 1 - T, H * D, order="interleaved")
            scheme = phasor.Conformer(heads(layer.linear_pos(rows)), T - 1, layer.pos_bias_u, layer.pos_bias_v)
        else:
            scheme = phasor.Shaw(layer.distance_embedding.weight, left=4, right=2)
        return layer.linear_out(phasor.attention(q, k, v, scheme, key_mask=mask).flatten(2))

    return Pair(layer, random((B, T, H * D), 2), theirs, ours)


def parakeet() -> Pair:
    config = transformers.ParakeetEncoderConfig(
        hidden_size=H * D, num_attention_heads=H, num_key_value_heads=H, attention_dropout=0.0, attn_implementation="eager"
    )
    layer = code("parakeet").ParakeetEncoderAttention(config, 0)
    mask = torch.ones(B, T, dtype=torch.bool)
    mask[1, 4:] = False

    def theirs(x: Tensor) -> Tensor:
        rows = code("parakeet").ParakeetEncoderRelPositionalEncoding(config)(x)
        return layer(x, rows, mask[:, None, None, :].expand(-1, 1, T, -1))[0]

    def ours(x: Tensor) -> Tensor:
        q, k, v = heads(layer.q_proj(x)), heads(layer.k_proj(x)), heads(layer.v_proj(x))
        rows = heads(layer.relative_k_proj(sinusoids(T - 1, 1 - T, H * D, order="interleaved")))
        return layer.o_proj(phasor.attention(q, k, v, phasor.Conformer(rows, T - 1, layer.bias_u, layer.bias_v), key_mask=mask).flatten(2))

    return Pair(layer, random((B, T, H * D), 2), theirs, ours)


def wavlm() -> Pair:
    layer = code("wavlm").WavLMAttention(H * D, H, num_buckets=8, max_distance=6)
    mask = torch.ones(B, T, dtype=torch.long)
    mask[1, 6:] = 0

    def ours(x: Tensor) -> Tensor:
        first, second = torch.sigmoid(layer.gru_rel_pos_linear(heads(x)).unflatten(-1, (2, 4)).sum(-1)).unbind(-1)
        gate = first * (second * layer.gru_rel_pos_const.reshape(H) - 1) + 2
        q, k, v = heads(layer.q_proj(x)), heads(layer.k_proj(x)), heads(layer.v_proj(x))
        out = phasor.attention(q, k, v, phasor.WavLM(layer.rel_attn_embed.weight.T, gate, 6), key_mask=mask.bool())
        return layer.out_proj(out.flatten(2))

    return Pair(layer, random((B, T, H * D), 2), lambda x: layer(x, attention_mask=mask)[0], ours)


def swin() -> Pair:
    layer = code("swin").SwinAttention(transformers.SwinConfig(attn_implementation="eager"), H * D, H, 3)

    def ours(x: Tensor) -> Tensor:
        q, k, v = heads(layer.q_proj(x)), heads(layer.k_proj(x)), heads(layer.v_proj(x))
        scheme = phasor.Grid(layer.relative_position_bias.relative_position_bias_table.T, (3, 3))
        return layer.o_proj(phasor.attention(q, k, v, scheme).flatten(2))

    return Pair(layer, random((B, 9, H * D), 2), lambda x: layer(x)[0], ours)


def beit() -> Pair:
    config = transformers.BeitConfig(hidden_size=H * D, num_attention_heads=H, image_size=3, patch_size=1, attn_implementation="eager")
    both = nn.ModuleList([code("beit").BeitAttention(config), code("beit").BeitRelativePositionBias(config)])
    layer, bias = both

    def ours(x: Tensor) -> Tensor:
        q, k, v = heads(layer.q_proj(x)), heads(layer.k_proj(x)), heads(layer.v_proj(x))
        scheme = phasor.Grid(bias.relative_position_bias_table.T, (3, 3), class_token=True)
        return layer.o_proj(phasor.attention(q, k, v, scheme).flatten(2))

    return Pair(both, random((B, 10, H * D), 2), lambda x: layer(x, bias((3, 3)))[0], ours)


def sam() -> Pair:
    grid = (2, 4)
    config = transformers.SamVisionConfig(hidden_size=H * D, num_attention_heads=H, image_size=4, patch_size=1, use_rel_pos=True)
    layer = code("sam").SamVisionAttention(config, 0)
    layer.rel_pos_h = nn.Parameter(torch.zeros(2 * grid[0] - 1, D))

    def ours(x: Tensor) -> Tensor:
        q, k, v = layer.qkv(x.flatten(1, 2)).unflatten(-1, (3, H, D)).unbind(2)
        out = phasor.attention(q, k, v, phasor.Decomposed(layer.rel_pos_h, layer.rel_pos_w, grid, grid))
        return layer.proj(out.flatten(2)).unflatten(1, grid)

    return Pair(layer, random((1, *grid, H * D), 2), lambda x: layer(x)[0], ours)


def inkling(kind: str) -> Pair:
    config = transformers.InklingTextConfig(
        hidden_size=6, num_hidden_layers=1, num_attention_heads=4, num_key_value_heads=2, head_dim=3, swa_num_attention_heads=4,
        swa_num_key_value_heads=2, swa_head_dim=3, sliding_window_size=3, d_rel=2, rel_extent=5, log_scaling_n_floor=3, log_scaling_alpha=0.4,
        layer_types=[kind], conv_kernel_size=2, attn_implementation="eager",
    )  # fmt: skip
    layer = code("inkling").InklingAttention(config, 0)
    window = 3 if kind == "hybrid_sliding" else None

    def theirs(x: Tensor) -> Tensor:
        return layer(x, additive(causal(T, T, window).expand(B, -1, -1), x.dtype))[0]

    def ours(x: Tensor) -> Tensor:
        q = layer.q_norm(heads(layer.q_proj(x), 4))
        k, v = layer.k_norm(heads(layer.k_sconv(layer.k_proj(x)), 2)), heads(layer.v_sconv(layer.v_proj(x)), 2)
        features = heads(layer.r_proj(x), 4)
        if window is None:
            tau = 1 + 0.4 * torch.log((torch.arange(1.0, T + 1) / 3).clamp(min=1.0)).reshape(-1, 1, 1)
            q, features = q * tau, features * tau
        seen = None if window is None else (window - 1, None)
        out = phasor.attention(q, k, v, phasor.Inkling(features, layer.rel_logits_proj.proj), True, scale=1 / 3, window=seen)
        return layer.o_proj(out.flatten(2))

    return Pair(layer, random((B, T, 6), 2), theirs, ours)


def gpt_oss(kind: str) -> Pair:
    config = transformers.GptOssConfig(
        hidden_size=10, head_dim=D, num_attention_heads=2 * H, num_key_value_heads=H, num_hidden_layers=1, layer_types=[kind], sliding_window=3,
        attn_implementation="eager",
    )  # fmt: skip
    layer = code("gpt_oss").GptOssAttention(config, 0)
    angles = torch.outer(torch.arange(T), torch.tensor([1.0, 0.1]))
    window = 3 if kind == "sliding_attention" else None

    def theirs(x: Tensor) -> Tensor:
        cos, sin = (y[None].to(x.dtype) for y in (angles.cos(), angles.sin()))
        return layer(x, (cos, sin), additive(causal(T, T, window), x.dtype))[0]

    def ours(x: Tensor) -> Tensor:
        rope = phasor.Rope(phasor.Rotary(D, base=100.0))
        q, k, v = heads(layer.q_proj(x), 2 * H), heads(layer.k_proj(x)), heads(layer.v_proj(x))
        # Their window counts keys, the query's own among them.
        out = phasor.attention(q, k, v, rope, True, scale=layer.scaling, sinks=layer.sinks, window=None if window is None else window - 1)
        return layer.o_proj(out.flatten(2))

    return Pair(layer, random((B, T, 10), 5), theirs, ours)


PAIRS: dict[str, Callable[[], Pair]] = {
    "t5 encoder": lambda: t5(False),
    "t5 decoder": lambda: t5(True),
    "t5 decoder with cache": lambda: t5(True, 6),
    "deberta both": lambda: deberta(("c2p", "p2c"), 4, 8, 3),
    "deberta c2p": lambda: deberta(("c2p",), 6, 16, 2),
    "deberta p2c": lambda: deberta(("p2c",), 6, 16, 2),
    "deberta without buckets": lambda: deberta(("c2p", "p2c"), -1, 4, 3),
    "deberta with fewer queries": deberta_fewer_queries,
    "xlnet": lambda: xlnet("bi", False, -1, 0),
    "xlnet without segments": lambda: xlnet("bi", False, -1, 0, False),
    "xlnet in both directions, clamped": lambda: xlnet("bi", True, 3, 0),
    "xlnet causal with memory": lambda: xlnet("uni", False, -1, 4),
    "mpt": mpt,
    "bloom": bloom,
    "wav2vec2-bert relative_key": lambda: wav2vec2_bert("relative_key"),
    "wav2vec2-bert relative": lambda: wav2vec2_bert("relative"),
    "parakeet": parakeet,
    "wavlm": wavlm,
    "swin": swin,
    "beit": beit,
    "sam": sam,
    "inkling": lambda: inkling("hybrid"),
    "gpt-oss": lambda: gpt_oss("full_attention"),
    "gpt-oss sliding": lambda: gpt_oss("sliding_attention"),
    "inkling sliding": lambda: inkling("hybrid_sliding"),
}


# float64: both sides sum some dozens of products, each in its order. float32: the same with 2^-24, and angles of theirs that are rounded.
@pytest.mark.parametrize("dtype, tolerance", [(torch.float64, 1e-12), (torch.float32, 1e-5)])
@pytest.mark.parametrize("name", PAIRS)
def test_outputs_and_gradients_are_those_of(name, dtype, tolerance):
    with float64_only():  # theirs ask for float32 in places
        pair = PAIRS[name]()
        randomize(pair.module, 1)
    module, x = pair.module.to(dtype), pair.x.to(dtype)
    results = []
    for attend in (pair.theirs, pair.ours):
        given = x.clone().requires_grad_()
        wide = dtype == torch.float64
        with float64_only() if wide else contextlib.nullcontext():
            out = attend(given)
        weights = torch.rand(out.shape, generator=torch.Generator().manual_seed(3), dtype=torch.float64).to(dtype)
        names, parameters = zip(*module.named_parameters())
        gradients = torch.autograd.grad((out * weights).sum(), (given, *parameters), allow_unused=True)
        results.append({"out": out, **dict(zip(("x", *names), gradients))})
    theirs, ours = results
    for key, want in theirs.items():
        assert (want is None) == (ours[key] is None), key
        if want is not None:
            scale = max(1.0, want.abs().max().item())
            torch.testing.assert_close(ours[key], want, atol=tolerance * scale, rtol=0, msg=lambda m, k=key: f"{k}: {m}")
