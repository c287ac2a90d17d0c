#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Records configs of the installed transformers and what its rotary modules compute for them, into tests/golden/configs (needs torch)."""
import importlib
import inspect
import json
import math
import random
import re
import sys
from pathlib import Path

import torch
import transformers
from transformers import CONFIG_MAPPING
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

OUT = Path(__file__).parents[2] / "tests" / "golden" / "configs"
KEEP = re.compile(
    r"rope|rotary|^head_dim|hidden_size$|n_embd|n_head|n_layer|num_(hidden_)?layers$|num_attention_heads|^num_heads$|layer_types$|layers_block_type|position|sliding"
    r"|model_type|original|^qk_|d_model|d_kv|d_head|relative|alibi|attn_temp|floor_scale|attn_scale|query_pre|_config$|chunk|max_seq|attention_multiplier"
    r"|embed_dim|^depth$|register|buckets|pad_token_id|max_(source|target)|(encoder|decoder)_(layers|attention_heads)|num_decoder_layers|local_attention"
    r"|image_size|patch_size|compress_r|global_head_dim|n_heads|memory_attention_(hidden|num|down)|max_window|use_sliding|pos_att|clamp_len|attn_type|attn_layer")
DROP = re.compile(r"mlp_layer_types|quantization|talker_config|token2wav|code2wav|index_|linear_|hidden_size_per|rotary_value|_rope_feat|_rope_dropout|per_layer_input|mtp_|ffn_")


def trimmed(value):
    """Only what positions can depend on."""
    if not isinstance(value, dict):
        return value
    return {k: trimmed(v) if k.endswith("_config") and k != "per_layer_config" else v for k, v in value.items() if KEEP.search(k) and not DROP.search(k)}


def floats(tensor):
    """float32 values with the digits that give them back."""
    return [float(f"{x:.9g}") for x in tensor.flatten().tolist()]


def modeling(config):
    name = type(config).__module__.replace("configuration_", "modeling_")
    return importlib.import_module(name)


def rotary_class(config, vision=False):
    found = []
    for name, cls in inspect.getmembers(modeling(config), inspect.isclass):
        if name.endswith("RotaryEmbedding") and ("Vision" in name) == vision and cls.__module__ == modeling(config).__name__:
            found.append(cls)
    thinker = [c for c in found if "Thinker" in c.__name__ or c.__name__ == "Qwen2_5OmniRotaryEmbedding"]  # Omni models have several
    named = thinker or [c for c in found if c.__name__.startswith(type(config).__name__.removesuffix("Config"))]
    return (named or found)[0]


def tables(config, vision=False):
    """{label: {inv_freq, amplitude}} of the model's own module; the label is empty when there is one for all."""
    module = rotary_class(config, vision)(config)
    labels = [n.removesuffix("_inv_freq") for n, _ in module.named_buffers() if n.endswith("_inv_freq") and not n.endswith("original_inv_freq")]
    if not labels:
        return {"": {"inv_freq": floats(module.inv_freq), "amplitude": float(module.attention_scaling)}}, module
    return {
        label: {"inv_freq": floats(getattr(module, label + "_inv_freq")), "amplitude": float(getattr(module, label + "_attention_scaling"))}
        for label in labels
    }, module


def axis_of_pair(module, axes, pairs, channel, shape):
    """Which axis turns each pair: a position of 1 on one axis after the other."""
    owner = [-1] * pairs
    for axis in range(axes):
        positions = torch.zeros(shape(axes))
        positions[(axis, 0, 0) if len(positions.shape) == 3 and positions.shape[0] == axes else (0, 0, axis)] = 1
        sin = module(torch.zeros(1), positions)[1].flatten()
        for pair in range(pairs):
            if sin[channel(pair)] != 0:
                assert owner[pair] == -1
                owner[pair] = axis
    return owner


def patches(config, axes_last):
    """Axis and frequency of each pair of an image encoder: a position of 1 on one axis after the other."""
    module = rotary_class(config, vision=True)(config)
    width = module(torch.zeros(1), torch.zeros((1, 1, 2) if axes_last else (1, 2)))[1].shape[-1]
    sines = []
    for axis in range(2):
        positions = torch.zeros((1, 1, 2) if axes_last else (1, 2))
        positions[..., axis] = 1
        sines.append(module(torch.zeros(1), positions)[1].flatten().double())
    channel = {"Sam2VideoConfig": lambda p: 2 * p, "Gemma4VisionConfig": lambda p: p + (p // (width // 4)) * (width // 4)}.get(type(config).__name__, lambda p: p)
    record = {"axis_of_pair": [], "frequency_of_pair": []}
    for pair in range(width // 2):
        values = [float(s[channel(pair)]) for s in sines]
        axis = 0 if values[0] != 0 else 1
        assert values[axis] != 0 and values[1 - axis] == 0
        record["axis_of_pair"].append(axis)
        record["frequency_of_pair"].append(float(f"{math.asin(values[axis]):.9g}"))
    return record


def write(name, record):
    record = {"made": f"tools/record/record_configs.py, transformers {transformers.__version__}, torch {torch.__version__.split('+')[0]}", **record}
    (OUT / f"{name}.json").write_text(json.dumps(record, separators=(",", ":")) + "\n", encoding="utf-8")


def json_of(config):
    return trimmed(json.loads(config.to_json_string(use_diff=False)))


def text_of(config):
    config = getattr(config, "thinker_config", config)
    return getattr(config, "text_config", config)


# Models whose rotary module takes the config: name, constructor arguments.
LAYERS = {"num_hidden_layers": 7}
YARN = {"rope_type": "yarn", "factor": 40.0, "original_max_position_embeddings": 4096, "beta_fast": 32, "beta_slow": 1, "mscale": 0.707, "mscale_all_dim": 0.707}
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192, "rope_theta": 500000.0}
PLAIN = (
    "llama mistral ministral ministral3 mixtral qwen2 qwen2_moe qwen3 qwen3_moe qwen3_next gemma gemma2 gemma3_text gemma3n_text gemma4_text gpt_oss phi phi3 phimoe "
    "gpt_neox gpt_neox_japanese stablelm persimmon nemotron cohere cohere2 glm glm4 ernie4_5 ernie4_5_moe deepseek_v2 deepseek_v3 deepseek_v32 deepseek_v4 "
    "glm_moe_dsa glm4_moe_lite youtu mistral4 minicpm3 hunyuan_v1_dense hunyuan_v1_moe mimo_v2_flash olmo olmo2 olmo3 olmoe falcon modernbert eurobert nomic_bert "
    "nanochat helium smollm3 granite granitemoe granite_swa seed_oss apertus arcee bitnet starcoder2 dbrx exaone4 falcon_h1 lfm2 bamba laguna zaya minimax minimax_m2 "
    "llama4_text"
).split()
GIVEN = {
    "llama-3.1": ("llama", {"rope_parameters": LLAMA3, "max_position_embeddings": 131072}),
    "llama-linear": ("llama", {"rope_parameters": {"rope_type": "linear", "factor": 4.0, "rope_theta": 10000.0}}),
    "qwen2.5-yarn": ("qwen2", {"rope_parameters": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768, "rope_theta": 1000000.0}}),
    "deepseek_v2-yarn": ("deepseek_v2", {"rope_parameters": {**YARN, "rope_theta": 10000.0}, "max_position_embeddings": 163840}),
    "deepseek_v3-yarn": ("deepseek_v3", {"rope_parameters": {**YARN, "mscale": 1.0, "mscale_all_dim": 1.0, "rope_theta": 10000.0}, "max_position_embeddings": 163840}),
    "deepseek_v4-yarn": ("deepseek_v4", {"rope_scaling": {"type": "yarn", "factor": 16, "original_max_position_embeddings": 65536, "beta_fast": 32, "beta_slow": 1}}),
    "gemma3-linear": ("gemma3_text", {"rope_parameters": {"full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1000000.0},
                                                         "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0}}}),
    "olmo3-yarn": ("olmo3", {"rope_scaling": {"rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 8192, "attention_factor": 1.2079, "beta_fast": 32, "beta_slow": 1}}),
    "hunyuan-alpha": ("hunyuan_v1_dense", {"head_dim": 128, "rope_parameters": {"rope_type": "dynamic", "alpha": 1000.0, "factor": 1.0, "rope_theta": 10000.0}}),
    "granite_swa-nope": ("granite_swa", {"layer_rope_theta": [0, 1e4, 1e4, 1e4, 0, 1e4, 1e4]}),
    "glm4.5": ("glm4_moe", {"head_dim": 128}),
    "minimax_m2-partial": ("minimax_m2", {"rotary_dim": 64}),
}
# Older files, by hand: what transformers 4 wrote.
OLDER = {
    "v4-llama-3.1": {"model_type": "llama", "hidden_size": 4096, "num_attention_heads": 32, "num_hidden_layers": 4, "max_position_embeddings": 131072, "rope_theta": 500000.0,
                     "rope_scaling": {k: v for k, v in LLAMA3.items() if k != "rope_theta"}},
    "v4-gemma3": {"model_type": "gemma3_text", "hidden_size": 2560, "num_hidden_layers": 8, "sliding_window": 1024, "rope_scaling": {"factor": 8.0, "rope_type": "linear"}, "rope_local_base_freq": 12345.0},
    "v4-modernbert": {"model_type": "modernbert", "num_hidden_layers": 6, "global_rope_theta": 170000.0, "local_rope_theta": 11000.0, "global_attn_every_n_layers": 3, "local_attention": 64},
    "v4-gpt_neox": {"model_type": "gpt_neox", "hidden_size": 512, "num_attention_heads": 8, "num_hidden_layers": 3, "rotary_pct": 0.375, "rotary_emb_base": 20000},
    "v4-phi": {"model_type": "phi", "hidden_size": 2560, "num_attention_heads": 32, "num_hidden_layers": 3, "partial_rotary_factor": 0.4, "rope_theta": 10000.0, "rope_scaling": None},
    "v4-phi3-su": {"model_type": "phi3", "hidden_size": 96, "num_attention_heads": 2, "num_hidden_layers": 3, "max_position_embeddings": 131072, "original_max_position_embeddings": 4096,
                   "rope_scaling": {"type": "su", "short_factor": [1.0 + i / 16 for i in range(24)], "long_factor": [1.0 + i for i in range(24)]}},
    "v4-deepseek_v3": {"model_type": "deepseek_v3", "num_hidden_layers": 3, "max_position_embeddings": 163840, "rope_theta": 10000, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64,
                       "rope_scaling": {"beta_fast": 32, "beta_slow": 1, "factor": 40, "mscale": 1.0, "mscale_all_dim": 1.0, "original_max_position_embeddings": 4096, "type": "yarn"}},
    "v4-qwen2-dynamic": {"model_type": "qwen2", "hidden_size": 256, "num_attention_heads": 4, "num_hidden_layers": 2, "max_position_embeddings": 2048, "rope_theta": 1000000.0,
                         "rope_scaling": {"type": "dynamic", "factor": 2.0}},
    "v4-mimo": {"model_type": "mimo_v2_flash", "num_hidden_layers": 7, "head_dim": 192, "sliding_window_size": 128,
                "rope_parameters": {"full_attention": {"rope_type": "default", "rope_theta": 5000000.0, "partial_rotary_factor": 0.334},
                                    "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.334}}},
    "v4-yarn-null-factor": {"model_type": "llama", "hidden_size": 128, "num_attention_heads": 2, "num_hidden_layers": 2, "max_position_embeddings": 16384, "rope_theta": 10000.0,
                            "rope_scaling": {"rope_type": "yarn", "factor": None, "original_max_position_embeddings": 4096}},
}
# Several axes: sections as published.
AXES = {
    "qwen2_vl": ({"text_config": {"num_hidden_layers": 3}}, 3, 64, lambda p: p),
    "qwen2_5_vl": ({"text_config": {"num_hidden_layers": 3, "rope_parameters": {"rope_type": "default", "rope_theta": 1000000.0, "mrope_section": [16, 24, 24]}}}, 3, 64, lambda p: p),
    "qwen3_vl": ({"text_config": {"num_hidden_layers": 3}}, 3, 64, lambda p: p),
    "qwen3_5": ({"text_config": {"num_hidden_layers": 5}}, 3, 32, lambda p: p),
    "glm4v": ({"text_config": {"num_hidden_layers": 3, "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.5, "mrope_section": [8, 12, 12]}}}, 3, 32, lambda p: 2 * p),
    "ernie4_5_vl_moe": ({"text_config": {"num_hidden_layers": 3}}, 3, 64, lambda p: 2 * p),
    "qwen2_5_omni": ({"thinker_config": {"text_config": {"num_hidden_layers": 3}}}, 3, 64, lambda p: p),
    "qwen3_omni_moe": ({"thinker_config": {"text_config": {"num_hidden_layers": 3, "head_dim": 128}}}, 3, 64, lambda p: p),
}
# Positions without rotary modules that take a config: the config alone, the test says what is wanted.
BARE = {
    "gptj": {}, "codegen": {}, "roformer": {}, "bloom": {}, "mpt": {}, "t5": {}, "mt5": {}, "bert": {}, "roberta": {}, "opt": {}, "gpt2": {}, "xlnet": {}, "deberta": {},
    "deberta-v2": {"relative_attention": True, "position_buckets": 256, "pos_att_type": ["p2c", "c2p"], "position_biased_input": False, "max_relative_positions": -1},
    "whisper": {}, "pixtral": {}, "sam2_video": {}, "vjepa2": {}, "dinov3_vit": {"num_register_tokens": 4}, "longcat_flash": {}, "hunyuan_vl": {}, "gemma4": {"vision_config": {}},
    "llama4": {}, "mistral3": {}, "phi4_multimodal": {}, "mllama": {},
}


def layered(name, kwargs):
    cls = CONFIG_MAPPING[name]
    parameters = inspect.signature(cls).parameters
    for key in ("num_hidden_layers", "n_layers", "num_layers", "n_layer"):
        if key in parameters:
            return cls(**{key: 7, **kwargs})
    return cls(**{"num_hidden_layers": 7, **kwargs})


def record_models():
    for name in PLAIN:
        config = layered(name, {})
        write(name, {"config": json_of(config), "tables": tables(config)[0]})
    for name, (model, kwargs) in GIVEN.items():
        config = layered(model, json.loads(json.dumps(kwargs)))
        write(name, {"config": json_of(config), "tables": tables(config)[0]})
    for name, raw in OLDER.items():
        # "su" is renamed by transformers only after it has looked for keys that longrope needs: its own new name gives the truth.
        known = json.dumps({k: v for k, v in raw.items() if k != "model_type"}).replace('"su"', '"longrope"')
        config = CONFIG_MAPPING[raw["model_type"]](**json.loads(known))
        write(name, {"config": raw, "tables": tables(config)[0]})
    for name, (kwargs, axes, pairs, channel) in AXES.items():
        config = CONFIG_MAPPING[name](**kwargs)
        found, module = tables(text_of(config))
        owner = axis_of_pair(module, axes, pairs, channel, lambda n: (n, 1, 1))
        for table in found.values():  # Ernie stores its frequencies in another order; a ladder falls
            table["inv_freq"].sort(reverse=True)
        write(name, {"config": json_of(config), "tables": found, "axis_of_pair": owner})
    for name, (config, axes_last) in {
        "vision-qwen2_vl": (CONFIG_MAPPING["qwen2_vl"]().vision_config, False),
        "vision-qwen3_vl": (CONFIG_MAPPING["qwen3_vl"]().vision_config, False),
        "vision-glm4v": (CONFIG_MAPPING["glm4v"]().vision_config, False),
        "vision-ernie4_5_vl_moe": (CONFIG_MAPPING["ernie4_5_vl_moe"]().vision_config, False),
        "vision-pixtral": (CONFIG_MAPPING["pixtral"](), False),
        "vision-gemma4": (CONFIG_MAPPING["gemma4"](vision_config={}).vision_config, True),
        "vision-sam2_video": (CONFIG_MAPPING["sam2_video"](), False),
    }.items():
        write(name, {"config": json_of(config), "patches": patches(config, axes_last)})
    for name, kwargs in BARE.items():
        write(name, {"config": json_of(layered(name, kwargs) if name not in ("whisper", "sam2_video", "llama4", "mistral3", "gemma4", "mllama", "hunyuan_vl") else CONFIG_MAPPING[name](**kwargs))})


def random_parameters(rng, kind, pairs):
    factor = rng.choice([1.0, 2.0, 8.0, 32.0, rng.uniform(1, 64)])
    lists = [[rng.uniform(0.5, 1.5) for _ in range(pairs)], [rng.uniform(1, 64) for _ in range(pairs)]]
    original = rng.choice([512, 2048, 4096, 8192, 32768])
    optional = {
        "yarn": {"beta_fast": rng.choice([16, 32, 64]), "beta_slow": rng.choice([1, 2, 0.5]), "truncate": rng.random() < 0.5, "mscale": rng.choice([0.707, 1.0]),
                 "mscale_all_dim": rng.choice([0, 1.0, 0.5]), "attention_factor": rng.uniform(0.5, 2)},
        "longrope": {"factor": factor, "attention_factor": rng.uniform(0.5, 2)},
    }.get(kind, {})
    required = {
        "default": {}, "linear": {"factor": factor}, "dynamic": {"factor": factor}, "proportional": {"partial_rotary_factor": rng.choice([0.25, 0.3, 0.5, 1.0])},
        "yarn": {"factor": factor, "original_max_position_embeddings": original},
        "longrope": {"short_factor": lists[0], "long_factor": lists[1], "original_max_position_embeddings": original},
        "llama3": {"factor": factor, "low_freq_factor": rng.choice([1.0, 0.5]), "high_freq_factor": rng.choice([2.0, 4.0]), "original_max_position_embeddings": original},
    }[kind]
    chosen = {k: v for k, v in optional.items() if rng.random() < 0.5}
    return {"rope_type": kind, "rope_theta": rng.choice([10000.0, 500000.0, 1e6, float(round(rng.uniform(1e3, 1e7)))]), **required, **chosen}


def record_random(count):
    rng = random.Random(4)
    kinds = ["default", "linear", "dynamic", "proportional", "yarn", "longrope", "llama3"]
    cases = []
    while len(cases) < count:
        kind = kinds[len(cases) % len(kinds)]
        head_dim = rng.choice([8, 10, 16, 24, 64])
        share = rng.choice([1.0, 0.5, 0.75]) if kind not in ("proportional",) and head_dim % 8 == 0 else 1.0
        pairs = int(head_dim * share) // 2
        rope = random_parameters(rng, kind, pairs)
        if share != 1.0:
            rope["partial_rotary_factor"] = share
        length = rng.choice([512, 4096, 131072])
        raw = {"model_type": "llama", "hidden_size": 4 * head_dim, "num_attention_heads": 4, "num_hidden_layers": 1, "max_position_embeddings": length, "rope_parameters": rope}
        config = CONFIG_MAPPING["llama"](**json.loads(json.dumps({k: v for k, v in raw.items() if k != "model_type"})))
        used = rng.choice([None, 100, 5000, 40000])
        if kind == "default":
            base, dim = rope["rope_theta"], int(head_dim * share)
            inv_freq, amplitude = 1.0 / (base ** (torch.arange(0, dim, 2, dtype=torch.int64).float() / dim)), 1.0
        else:
            inv_freq, amplitude = ROPE_INIT_FUNCTIONS[kind](config, "cpu", seq_len=used)
        if not all(torch.isfinite(inv_freq)):
            continue
        cases.append({"config": raw, "length": used or 0, "inv_freq": floats(inv_freq), "amplitude": float(amplitude)})
    write("random", {"cases": cases})


def main():
    transformers.logging.set_verbosity_error()
    OUT.mkdir(parents=True, exist_ok=True)
    for old in OUT.glob("*.json"):
        old.unlink()
    record_models()
    record_random(280)
    names = sorted(p.stem for p in OUT.glob("*.json") if p.stem != "random")
    (OUT / "index.txt").write_text("\n".join(names) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
