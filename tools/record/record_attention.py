#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Records the attention of transformers' own modules, forward and backward in float64, into tests/golden/attention_*.json: numbers only.

Inputs are what meets in the scores: q, k and v after their projections, tables as the reference of attention takes them. Needs torch, transformers."""
import importlib
import json
import sys
from pathlib import Path

import torch
import transformers
from torch import nn
from transformers.cache_utils import DynamicCache

from record_attention_parts import (Case, additive, by_head, causal, flat, float64_only, heads_last, keep_input, keep_interface, keep_output, kept,
                                    random, randomize, replaced, same, split)

MODELS = ("beit", "bloom", "deberta_v2", "inkling", "mpt", "parakeet", "sam", "swin", "t5", "wav2vec2_bert", "wavlm", "xlnet")
CODE = {model: importlib.import_module(f"transformers.models.{model}.modeling_{model}") for model in MODELS}


def t5():
    heads, cases = 2, []
    for name, decoder, past in (("encoder", False, 0), ("decoder", True, 0), ("decode", True, 5)):
        config = transformers.T5Config(d_model=6, d_kv=3, num_heads=heads, relative_attention_num_buckets=8, relative_attention_max_distance=6,
                                       dropout_rate=0.0, is_decoder=decoder, attn_implementation="eager")
        layer = randomize(CODE["t5"].T5Attention(config, has_relative_attention_bias=True, layer_idx=0), 1)
        store = {}
        tokens, batch = (2, 1) if past else (9, 2)
        mask = torch.ones(batch, tokens + past, dtype=torch.bool)
        if not decoder:
            mask[1, 6:] = False
        allowed = mask[:, None, :] & (causal(tokens, tokens + past) if decoder else torch.ones(1, tokens, tokens, dtype=torch.bool))
        cache = DynamicCache() if past else None
        if past:
            layer(random((1, past, 6), 8), mask=additive(causal(past, past)), past_key_values=cache)
        with keep_interface(CODE["t5"], store):
            layer(random((batch, tokens, 6), 2), mask=additive(allowed), past_key_values=cache)
        case = Case(name, store["out"], 3)
        inputs = {**{n: (store[n], heads_last) for n in "qkv"}, "table": (layer.relative_attention_bias.weight, lambda x: x.T)}
        cases.append(case.finish(inputs, {"kind": "t5", "buckets": 8, "max_distance": 6, "both_sides": not decoder},
                                 {"scale": 1.0, "causal": decoder, "key_mask": mask.long()}))
    return cases


def deberta_v2():
    cases = []
    # Widths whose scale is exact in float32, in which the module takes its root.
    for name, kinds, buckets, farthest, width in (("both", ["c2p", "p2c"], 4, 8, 3), ("c2p", ["c2p"], 6, 16, 2), ("p2c", ["p2c"], 6, 16, 2),
                                                  ("unbucketed", ["c2p", "p2c"], -1, 4, 3)):
        heads, tokens = 2, 12
        config = transformers.DebertaV2Config(hidden_size=heads * width, num_attention_heads=heads, pos_att_type=kinds, relative_attention=True,
                                              position_buckets=buckets, max_relative_positions=farthest, share_att_key=False,
                                              hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
        layer = randomize(CODE["deberta_v2"].DisentangledSelfAttention(config), 1)
        store, tables = {}, {}
        for n, module in zip("qkv", (layer.query_proj, layer.key_proj, layer.value_proj)):
            keep_output(module, store, n)
        for n, kind, module in (("keys", "c2p", "pos_key_proj"), ("queries", "p2c", "pos_query_proj")):
            if kind in kinds:
                keep_output(getattr(layer, module), tables, n)
        span = buckets if buckets > 0 else farthest
        mask = torch.ones(1, tokens, dtype=torch.long)
        mask[0, 4] = 0
        out = layer(random((1, tokens, heads * width), 2), mask[:, None, None, :].expand(1, 1, tokens, tokens),
                    rel_embeddings=random((2 * span, heads * width), 4))[0]
        case = Case(name, out, 3)
        inputs = {**{n: (x, split(heads)) for n, x in store.items()}, **{n: (x, by_head(heads)) for n, x in tables.items()}}
        cases.append(case.finish(inputs, {"kind": "deberta", "buckets": max(buckets, 0), "max_distance": farthest},
                                 {"scale": (width * (1 + len(kinds))) ** -0.5, "key_mask": mask}))
    return cases


def xlnet():
    cases = []
    for name, kind, both_ways, clamp, memory in (("bi", "bi", False, -1, 0), ("bi_data_clamped", "bi", True, 3, 0), ("uni_with_memory", "uni", False, -1, 2)):
        heads, width, model, tokens, batch = 2, 3, 6, 5, 2
        config = transformers.XLNetConfig(d_model=model, n_head=heads, n_layer=1, d_inner=4, vocab_size=8, attn_type=kind, bi_data=both_ways,
                                          clamp_len=clamp, dropout=0.0)
        whole = randomize(CODE["xlnet"].XLNetModel(config), 1)
        layer = whole.layer[0].rel_attn
        keys = tokens + memory
        q, k, v = (random((t, batch, heads, width), 10 + n).requires_grad_() for n, t in enumerate((tokens, keys, keys)))
        key_segments = torch.tensor([[0, 1, 0, 1, 1, 0, 1][:keys], [0, 0, 0, 1, 1, 2, 2][:keys]])
        query_segments = key_segments[:, memory:]
        differ = (query_segments.T[:, None, :] != key_segments.T[None, :, :]).long()
        segments = nn.functional.one_hot(differ, 2).to(torch.float64)
        rows = whole.relative_positional_encoding(tokens, keys, bsz=batch)
        hidden = ~causal(tokens, keys)[0] if kind == "uni" else torch.zeros(tokens, keys, dtype=torch.bool)
        out = layer.rel_attn_core(q, k, v, torch.einsum("ibh,hnd->ibnd", rows, layer.r), seg_mat=segments,
                                  attn_mask=hidden[:, :, None, None].to(torch.float64).expand(-1, -1, batch, 1))
        case = Case(name, out.transpose(0, 1), 3)
        turned = lambda x: x.transpose(0, 1)
        inputs = {"q": (q, turned), "k": (k, turned), "v": (v, turned), "u": (layer.r_w_bias, same), "v_bias": (layer.r_r_bias, same),
                  "segment_bias": (layer.r_s_bias, same), "segment_table": (layer.seg_embed, same),
                  "projection": (layer.r, lambda x: x.permute(1, 2, 0))}
        scheme = {"kind": "xlnet", "model_width": model, "clamp": max(clamp, 0), "direction": [1, -1] if both_ways else [],
                  "query_segments": flat(query_segments), "key_segments": flat(key_segments)}
        cases.append(case.finish(inputs, scheme, {"scale": width ** -0.5, "causal": kind == "uni"}))
    return cases


def mpt():
    heads, width, tokens, batch = 3, 2, 6, 2
    config = transformers.MptConfig(d_model=heads * width, n_heads=heads)
    layer = randomize(CODE["mpt"].MptAttention(config, layer_idx=0), 1)
    store = {}
    keep_output(layer.Wqkv, store, "qkv")
    keep_input(layer.out_proj, store)
    layer(random((batch, tokens, heads * width), 2), CODE["mpt"].build_mpt_alibi_tensor(heads, tokens), attention_mask=~causal(tokens, tokens)[:, None])
    case = Case("mpt", store["out"], 3)
    part = lambda n: lambda x: x.chunk(3, dim=2)[n].reshape(batch, tokens, heads, width)
    inputs = {name: (store["qkv"], part(n)) for n, name in enumerate("qkv")}
    positions = list(range(1 - tokens, 1)) * batch
    return [case.finish(inputs, {"kind": "alibi", "heads": heads, "form": "key_position"},
                        {"scale": width ** -0.5, "causal": True, "query_positions": positions, "key_positions": positions})]


def bloom():
    heads, width, tokens, batch = 3, 2, 6, 2
    config = transformers.BloomConfig(hidden_size=heads * width, n_head=heads, hidden_dropout=0.0, attention_dropout=0.0)
    layer = randomize(CODE["bloom"].BloomAttention(config, layer_idx=0), 1)
    store = {}
    keep_output(layer.query_key_value, store, "qkv")
    keep_input(layer.dense, store)
    mask = torch.tensor([[1, 1, 1, 1, 1, 1], [1, 0, 1, 1, 0, 1]])
    alibi = CODE["bloom"].build_alibi_tensor(mask, heads, torch.float64)
    x = random((batch, tokens, heads * width), 2)
    layer(x, x, alibi, additive(mask[:, None, :].bool() & causal(tokens, tokens)))
    case = Case("bloom", store["out"], 3)
    part = lambda n: lambda x: x.reshape(batch, tokens, heads, 3, width)[..., n, :]
    inputs = {name: (store["qkv"], part(n)) for n, name in enumerate("qkv")}
    count = mask.cumsum(-1) - 1  # a padding query sees the keys before it, as its place in the tensor does
    return [case.finish(inputs, {"kind": "alibi", "heads": heads, "form": "key_position"},
                        {"scale": width ** -0.5, "causal": True, "key_mask": mask, "query_positions": count, "key_positions": count * mask})]


def xl_inputs(store, heads, layer, names):
    u, v, projection = (getattr(layer, name) for name in names)
    return {**{n: (store[n], split(heads)) for n in "qkv"}, "u": (u, same), "v_bias": (v, same), "projection": (projection.weight, same)}


def wav2vec2_bert():
    cases = []
    for kind in ("relative_key", "relative"):
        heads, width, tokens, batch = 2, 4, 8, 2
        config = transformers.Wav2Vec2BertConfig(hidden_size=heads * width, num_attention_heads=heads, position_embeddings_type=kind,
                                                 left_max_position_embeddings=4, right_max_position_embeddings=2, attention_dropout=0.0,
                                                 max_source_positions=20, attn_implementation="eager")
        layer = randomize(CODE["wav2vec2_bert"].Wav2Vec2BertSelfAttention(config), 1)
        store = {}
        for n, module in zip("qkv", (layer.linear_q, layer.linear_k, layer.linear_v)):
            keep_output(module, store, n)
        keep_input(layer.linear_out, store)
        mask = torch.ones(batch, tokens, dtype=torch.long)
        mask[1, 5:] = 0
        x = random((batch, tokens, heads * width), 2)
        rows = CODE["wav2vec2_bert"].Wav2Vec2BertRelPositionalEmbedding(config)(x) if kind == "relative" else None
        layer(x, additive(mask[:, None, :].bool().expand(-1, tokens, -1)), relative_position_embeddings=rows)
        case = Case(kind, store["out"], 3)
        rest = {"scale": width ** -0.5, "key_mask": mask}
        if kind == "relative":
            inputs = xl_inputs(store, heads, layer, ("pos_bias_u", "pos_bias_v", "linear_pos"))
            cases.append(case.finish(inputs, {"kind": "conformer", "model_width": heads * width}, rest))
        else:
            inputs = {**{n: (store[n], split(heads)) for n in "qkv"}, "keys": (layer.distance_embedding.weight, same)}
            cases.append(case.finish(inputs, {"kind": "shaw", "left": 4, "right": 2}, rest))
    return cases


def parakeet():
    heads, width, tokens, batch = 2, 4, 7, 2
    config = transformers.ParakeetEncoderConfig(hidden_size=heads * width, num_attention_heads=heads, num_key_value_heads=heads,
                                                attention_dropout=0.0, attn_implementation="eager")
    layer = randomize(CODE["parakeet"].ParakeetEncoderAttention(config, 0), 1)
    store = {}
    for n, module in zip("qkv", (layer.q_proj, layer.k_proj, layer.v_proj)):
        keep_output(module, store, n)
    keep_input(layer.o_proj, store)
    mask = torch.ones(batch, tokens, dtype=torch.long)
    mask[1, 4:] = 0
    x = random((batch, tokens, heads * width), 2)
    layer(x, CODE["parakeet"].ParakeetEncoderRelPositionalEncoding(config)(x), mask[:, None, None, :].bool().expand(-1, 1, tokens, -1))
    case = Case("parakeet", store["out"], 3)
    inputs = xl_inputs(store, heads, layer, ("bias_u", "bias_v", "relative_k_proj"))
    return [case.finish(inputs, {"kind": "conformer", "model_width": heads * width}, {"scale": width ** -0.5, "key_mask": mask})]


def wavlm():
    heads, width, tokens, batch = 2, 3, 9, 2
    layer = randomize(CODE["wavlm"].WavLMAttention(heads * width, heads, num_buckets=8, max_distance=6), 1)
    store = {}
    project, attend = nn.functional._in_projection, layer.torch_multi_head_self_attention

    def projected(*arguments):
        results = project(*arguments)
        store.update(zip("qkv", map(kept, results)))  # (T, B, H D)
        return results

    def attended(hidden_states, attention_mask, gated_position_bias):
        store["gated"] = kept(gated_position_bias)
        return attend(hidden_states, attention_mask, gated_position_bias)

    keep_output(layer.gru_rel_pos_linear, store, "gate_logits")  # (B, H, T, 8)
    layer.out_proj.weight.data.copy_(torch.eye(heads * width))
    layer.out_proj.bias.data.zero_()
    mask = torch.ones(batch, tokens, dtype=torch.long)
    mask[1, 6:] = 0
    layer.torch_multi_head_self_attention = attended
    with replaced(nn.functional, _in_projection=projected):
        out, _, bias = layer(random((batch, tokens, heads * width), 2), attention_mask=mask)
    case = Case("wavlm", out, 3)
    first, second = torch.sigmoid(store["gate_logits"].detach().reshape(batch, heads, tokens, 2, 4).sum(-1)).unbind(-1)
    gate = first * (second * layer.gru_rel_pos_const.detach().reshape(1, heads, 1) - 1) + 2
    bias = bias.detach().reshape(batch, heads, tokens, tokens)
    gated = store["gated"]
    if not torch.allclose(gated.detach().reshape(bias.shape), gate[..., None] * bias, rtol=1e-14, atol=1e-15):
        raise SystemExit("wavlm: the gate is another")
    gate.grad = (gated.grad.reshape(bias.shape) * bias).sum(-1)
    turned = lambda x: x.transpose(0, 1).reshape(batch, tokens, heads, width)
    inputs = {**{n: (store[n], turned) for n in "qkv"}, "table": (layer.rel_attn_embed.weight, lambda x: x.T), "gate": (gate, heads_last)}
    return [case.finish(inputs, {"kind": "wavlm", "buckets": 8, "max_distance": 6}, {"scale": width ** -0.5, "key_mask": mask})]


def swin():
    heads, width, window, batch = 2, 3, 3, 2
    shape = {"hidden_size": heads * width, "num_attention_heads": heads, "image_size": window, "patch_size": 1}
    config = transformers.BeitConfig(**shape, attn_implementation="eager")
    layer = CODE["swin"].SwinAttention(transformers.SwinConfig(attn_implementation="eager"), heads * width, heads, window)
    beit = nn.ModuleList([CODE["beit"].BeitAttention(config), CODE["beit"].BeitRelativePositionBias(config)])
    cases = []
    for name, module, tokens in (("swin", layer, 9), ("beit", beit, 10)):
        store = {}
        randomize(module, 1)
        x = random((batch, tokens, heads * width), 2)
        with keep_interface(CODE[name], store):
            module(x) if name == "swin" else module[0](x, module[1]((window, window)))
        case = Case(name, store["out"], 3)
        table = (module.relative_position_bias if name == "swin" else module[1]).relative_position_bias_table
        inputs = {**{n: (store[n], heads_last) for n in "qkv"}, "table": (table, lambda x: x.T)}
        cases.append(case.finish(inputs, {"kind": "swin", "grid": [window, window], "class_token": name == "beit"}, {"scale": width ** -0.5}))
    return cases


def sam():
    heads, width, grid, batch = 2, 3, (2, 4), 1
    config = transformers.SamVisionConfig(hidden_size=heads * width, num_attention_heads=heads, image_size=4, patch_size=1, use_rel_pos=True)
    layer = CODE["sam"].SamVisionAttention(config, 0)
    layer.rel_pos_h = nn.Parameter(torch.zeros(2 * grid[0] - 1, width))
    randomize(layer, 1)
    store = {}
    keep_output(layer.qkv, store, "qkv")
    keep_input(layer.proj, store)
    layer(random((batch, *grid, heads * width), 2))
    case = Case("sam", store["out"], 3)
    part = lambda n: lambda x: x.reshape(batch, grid[0] * grid[1], 3, heads, width)[:, :, n]
    inputs = {**{name: (store["qkv"], part(n)) for n, name in enumerate("qkv")}, "rows_h": (layer.rel_pos_h, same), "rows_w": (layer.rel_pos_w, same)}
    return [case.finish(inputs, {"kind": "sam", "grid": grid, "key_grid": grid}, {"scale": width ** -0.5}), sam_of_two_grids(layer, heads, width)]


def sam_of_two_grids(layer, heads, width):
    """Keys on another grid, as where they are pooled: SAM has the rows for it, but never calls them so."""
    grid, key_grid = (2, 4), (4, 2)
    q, k, v = (random((heads, 8, width), 10 + n).requires_grad_() for n in range(3))
    rows_h, rows_w = (random((7, width), 20 + n).requires_grad_() for n in range(2))
    bias = layer.get_decomposed_rel_pos(q, rows_h, rows_w, grid, key_grid).reshape(heads, 8, 8)
    out = torch.softmax(q @ k.transpose(1, 2) + bias, -1) @ v
    case = Case("two_grids", out.transpose(0, 1), 3)
    turned = lambda x: x.transpose(0, 1)[None]
    inputs = {"q": (q, turned), "k": (k, turned), "v": (v, turned), "rows_h": (rows_h, same), "rows_w": (rows_w, same)}
    return case.finish(inputs, {"kind": "sam", "grid": grid, "key_grid": key_grid}, {"scale": 1.0})


def inkling():
    cases = []
    for name, layer_type, extent in (("full", "hybrid", 5), ("sliding", "hybrid_sliding", 3)):
        heads, key_heads, width, features, tokens, batch = 4, 2, 3, 2, 8, 2
        config = transformers.InklingTextConfig(hidden_size=6, num_hidden_layers=1, num_attention_heads=heads, num_key_value_heads=key_heads,
                                                head_dim=width, swa_num_attention_heads=heads, swa_num_key_value_heads=key_heads,
                                                swa_head_dim=width, sliding_window_size=3, d_rel=features, rel_extent=5, log_scaling_n_floor=3,
                                                log_scaling_alpha=0.4, layer_types=[layer_type], conv_kernel_size=2,
                                                attn_implementation="eager")
        layer = randomize(CODE["inkling"].InklingAttention(config, 0), 1)
        store = {}
        keep_output(layer.r_proj, store, "features")
        sliding = layer_type == "hybrid_sliding"
        with keep_interface(CODE["inkling"], store):
            layer(random((batch, tokens, 6), 2), additive(causal(tokens, tokens, 3 if sliding else None).expand(batch, -1, -1)))
        case = Case(name, store["out"], 3)
        inputs = {**{n: (store[n], heads_last) for n in "qkv"}, "features": (store["features"], split(heads)), "table": (layer.rel_logits_proj.proj, same)}
        scheme = {"kind": "inkling", "extent": extent, "feature_width": features, "alpha": 0.0 if sliding else 0.4, "floor": 3.0}
        cases.append(case.finish(inputs, scheme, {"scale": 1 / width, "causal": True, **({"left": 2} if sliding else {})}))
    return cases


def main():
    golden = Path(__file__).parents[2] / "tests" / "golden"
    made_by = f"tools/record/record_attention.py, torch {torch.__version__}, transformers {transformers.__version__}"
    for record in (t5, deberta_v2, xlnet, mpt, bloom, wav2vec2_bert, parakeet, wavlm, swin, sam, inkling):
        with float64_only():
            text = json.dumps({"made_by": made_by, "cases": record()}, separators=(",", ":"))
        target = golden / f"attention_{record.__name__}.json"
        target.write_text(text.replace('],"', '],\n"') + "\n", encoding="utf-8")
        print(f"{target.name}: {len(text)} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
