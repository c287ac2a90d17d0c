# SPDX-License-Identifier: Apache-2.0
"""Makes any transformers config tiny: sizes by the name of the field, layers few, token ids inside the vocabulary."""

import copy
import dataclasses
import re
from typing import Any

from .overrides import OVERRIDES

VOCAB = 128
FIRST_SPECIAL = 100  # ordinary tokens of the tests lie below

# The first rule whose expression matches the whole field name wins: the value is at most this.
LIMITS: list[tuple[str, int]] = [
    (r".*token_id|.*token_index|.*_token|.*_id", 1 << 40),
    (r".*vocab_size(_per_layer_input)?|.*num_embeddings|codebook_size", VOCAB),
    (r"(.*_)?(num_)?(key_value_heads|kv_heads)|multi_query_group_num", 2),
    (r"(.*_)?(num_)?(attention_heads|heads)|n_head|nhead|n_heads", 4),
    (r".*(num|n)_(hidden_)?layers?|.*_layers?|depth|n_layer|num_blocks|.*_depth", 2),
    (r"head_dim|.*_head_dim|head_size|d_kv|attention_head_size", 16),
    (r"hidden_size|d_model|n_embd|.*hidden_size|.*hidden_dim|embed_dim|.*_dim|.*_dim_.*|dim|width|.*_width|hidden_channels", 64),
    (r".*intermediate_size.*|.*ffn.*|d_ff|inner_dim|n_inner|.*mlp.*", 64),
    (r"(.*_)?num_(local_)?experts|n_routed_experts", 4),
    (r".*experts_per_tok.*|.*top_?k.*|moe_k", 2),
    (r"n_group|topk_group", 1),
    (r".*image_size|img_size|crop_size", 32),
    (r"frames_per_clip", 4),
    (r".*lora_rank", 16),
    (r"sliding_window", 8),
    (r".*chunk_size", 8),
]
KEY_HEADS = ("num_key_value_heads", "num_kv_heads", "n_kv_heads", "decoder_num_key_value_heads", "encoder_num_key_value_heads")


def limit(name: str, value: int) -> int:
    """The small value of one integer field."""
    for pattern, most in LIMITS:
        if re.fullmatch(pattern, name):
            return min(value, most)
    return value


def few_of_each_kind(values: list, count: int) -> list:
    """The first `count` entries and one of every kind that is not among them."""
    few = list(values[:count])
    for value in values[count:]:
        if value not in few:
            few.append(value)
    return few


def sections(values: list[int], pairs: int) -> list[int]:
    """The sections of an axis-wise rotation, scaled to that many pairs."""
    small = [max(1, value * pairs // sum(values)) for value in values]
    small[0] += pairs - sum(small)
    return small


def shrink(config_class: type) -> Any:
    """A tiny config of the class; what its constructor derives is left to it."""
    return config_class(**small_fields(config_class()))


def small_fields(whole: Any) -> dict[str, Any]:
    """The fields that make a tiny copy of this default config, nested configs as dicts."""
    small: dict[str, Any] = {}
    whole.allow_global_per_layer_attribute_access = True  # Gemma 4: the global value of a field that varies by layer
    defaults = {f.name: f.default for f in dataclasses.fields(type(whole)) if f.default is not dataclasses.MISSING}
    nested = getattr(type(whole), "sub_configs", {})
    for name, default in defaults.items():
        value = getattr(whole, name, default)
        if name in nested:
            if value is not None and dataclasses.is_dataclass(value):
                small[name] = {**small_fields(value), "model_type": value.model_type}
        elif isinstance(value, int) and not isinstance(value, bool):
            # A None default with a value is derived; a size that is derived would keep the large config's.
            if default is not None or limit(name, value) != value:
                small[name] = limit(name, value)
    fill(whole, small)
    keep_ratios(whole, small)
    keep_kinds(whole, small)
    fix_rope(whole, small)
    fix_tokens(whole, small)
    return {**small, **OVERRIDES.get(whole.model_type, {})}


def keep_ratios(whole: Any, small: dict[str, Any]) -> None:
    """As many key heads as query heads where the whole config has that."""
    heads = next((n for n in ("num_attention_heads", "n_heads", "num_heads") if n in small), None)
    for name in KEY_HEADS:
        prefix = name.split("num_")[0]
        query = prefix + "num_attention_heads" if prefix else heads
        if name in small and query in small and getattr(whole, name) == getattr(whole, query):
            small[name] = small[query]


def keep_kinds(whole: Any, small: dict[str, Any]) -> None:
    """A layer of every kind."""
    count = small.get("num_hidden_layers", small.get("num_layers"))
    for name in ("layer_types", "layers_block_type"):
        values = getattr(whole, name, None)
        if count and isinstance(values, (list, tuple)) and name in {f.name for f in dataclasses.fields(type(whole))}:
            small[name] = few_of_each_kind(list(values), count)
            small["num_hidden_layers"] = len(small[name])


def fix_rope(whole: Any, small: dict[str, Any]) -> None:
    """Sections of the rotation fit the small head."""
    rope = copy.deepcopy(getattr(whole, "rope_parameters", None))
    if "mrope_section" not in (getattr(type(whole), "ignore_keys_at_rope_validation", None) or {}) or "rope_theta" not in (rope or {}):
        return
    head = small.get("head_dim") or small["hidden_size"] // small["num_attention_heads"]
    share = rope.get("partial_rotary_factor", getattr(whole, "partial_rotary_factor", 1)) or 1
    rope["mrope_section"] = sections(rope.get("mrope_section", [2, 1, 1]), int(head * share) // 2)
    small["rope_parameters"] = rope


def fill(whole: Any, small: dict[str, Any]) -> None:
    """Sizes that the default config leaves open."""
    heads = small.get("num_attention_heads", 4)
    sizes = {"num_key_value_heads": heads, "intermediate_size": 64, "moe_intermediate_size": 32, "num_experts_per_tok": 2}
    sizes |= {"n_routed_experts": 4, "head_dim": small.get("hidden_size", 64) // heads}
    for field in dataclasses.fields(type(whole)):
        if field.name in sizes and getattr(whole, field.name, None) is None:
            small[field.name] = sizes[field.name]


def fix_tokens(whole: Any, small: dict[str, Any]) -> None:
    """Token ids that are not small get ids of their own below the end of the vocabulary."""
    taken = FIRST_SPECIAL
    for field in dataclasses.fields(type(whole)):
        value = getattr(whole, field.name, None)
        if not re.fullmatch(r".*token_id|.*token_index|.*_(start|end)_id|.*token_ids", field.name):
            continue
        if isinstance(value, int) and value >= 10:
            small[field.name] = taken
            taken += 1
        elif isinstance(value, list) and any(isinstance(v, int) and v >= 10 for v in value):
            small[field.name] = [taken]
            taken += 1
