# SPDX-License-Identifier: Apache-2.0
"""attn_implementation="phasor" beside "eager", in whole tiny models: logits, gradients, generation, masks as rules, schemes of layers."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor
from transformers import masking_utils as masks

import phasor
import phasor.hf
from phasor.hf import _attention

NAME = phasor.hf.register_attention()
T = 11
SMALL = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 50}
CONFIGS: dict[str, Any] = {
    "llama": lambda: transformers.LlamaConfig(**SMALL),
    "qwen3 with a window": lambda: transformers.Qwen3Config(**SMALL, head_dim=8, use_sliding_window=True, sliding_window=4, layer_types=["sliding_attention", "full_attention"]),
    "gemma2": lambda: transformers.Gemma2Config(**SMALL, head_dim=8, sliding_window=4, query_pre_attn_scalar=8, attn_logit_softcapping=2.0),
    "gpt_oss": lambda: transformers.GptOssConfig(**SMALL, head_dim=8, sliding_window=4, num_local_experts=2, num_experts_per_tok=1),
}  # fmt: skip


def pair(name: str, dtype: torch.dtype = torch.float32) -> tuple[Any, Any]:
    """The same model with eager attention, and with phasor's."""
    torch.manual_seed(1)
    model = transformers.AutoModelForCausalLM.from_config(CONFIGS[name](), attn_implementation="eager").to(dtype).eval()
    for parameter in model.parameters():  # also what begins as zeros or ones
        torch.nn.init.normal_(parameter, std=0.3)
    other = copy.deepcopy(model)
    other.set_attn_implementation(NAME)
    assert other.config._attn_implementation == NAME
    return model, other


def close(got: Tensor, want: Tensor, what: str = "") -> None:
    """Within what some hundred roundings to float32, one after the other, make of the largest number."""
    assert (got - want).abs().max() <= 500 * 2.0**-24 * want.abs().max(), what


def tokens(batch: int = 2, count: int = T) -> Tensor:
    return torch.randint(0, 50, (batch, count), generator=torch.Generator().manual_seed(2))


PADDING = torch.tensor([[1] * T, [0] * 3 + [1] * (T - 3)])


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("padded", [False, True])
def test_logits_and_gradients_are_those_of_eager(name: str, padded: bool) -> None:
    found = []
    for model in pair(name):
        mask = {"attention_mask": PADDING} if padded else {}
        logits = model(input_ids=tokens(), **mask).logits
        seen = logits[PADDING.bool()] if padded else logits  # a padded query sees nothing: eager has an average there
        seen.sin().sum().backward()
        found.append((seen.detach(), {key: p.grad for key, p in model.named_parameters() if p.grad is not None}))
    (want, want_gradients), (got, gradients) = found
    close(got, want)
    assert want_gradients.keys() == gradients.keys()
    for key, gradient in want_gradients.items():
        close(gradients[key], gradient, key)


@pytest.mark.parametrize("name", ["llama", "qwen3 with a window"])
def test_generation_with_a_cache_is_that_of_eager(name: str) -> None:
    eager, ours = pair(name)
    for cache in ("dynamic", "static"):
        options = {"max_new_tokens": 9, "do_sample": False, "pad_token_id": 0, "attention_mask": PADDING, "cache_implementation": cache, "disable_compile": True}
        want, got = (model.generate(tokens(), **options) for model in (eager, ours))
        assert torch.equal(want, got), cache


def test_a_compiled_model_is_the_model() -> None:
    _, model = pair("llama")
    torch._dynamo.reset()
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    with torch.no_grad():
        torch.testing.assert_close(compiled(input_ids=tokens()).logits, model(input_ids=tokens()).logits, atol=1e-5, rtol=1e-5)


def test_t5_takes_its_bias_and_its_masks() -> None:
    config = transformers.T5Config(d_model=16, d_kv=4, d_ff=24, num_layers=2, num_heads=4, vocab_size=50, dropout_rate=0.0)
    torch.manual_seed(1)
    model = transformers.T5ForConditionalGeneration._from_config(config, attn_implementation="eager").double().eval()
    other = copy.deepcopy(model)
    other.set_attn_implementation(NAME)
    mask = torch.tensor([[1] * T, [1] * (T - 4) + [0] * 4])
    inputs = {"input_ids": tokens(), "attention_mask": mask, "decoder_input_ids": tokens(2, 5)}
    want, got = (m(**inputs).logits for m in (model, other))
    torch.testing.assert_close(got, want, atol=1e-5, rtol=1e-5)


def test_masks_are_rules_where_they_can_be() -> None:
    rules = _attention._rules_of
    assert rules(masks.causal_mask_function) == {"causal": True} and rules(masks.bidirectional_mask_function) == {}
    assert rules(masks.sliding_window_causal_mask_function(4)) == {"causal": True, "window": (3, None)}
    assert rules(masks.sliding_window_bidirectional_mask_function(4)) == {"window": (4, 4)}
    packed = masks.and_masks(masks.causal_mask_function, masks.packed_sequence_mask_function(torch.zeros(1, 3, dtype=torch.int64)))
    for other in (packed, masks.chunked_causal_mask_function(3, torch.zeros(1, dtype=torch.int64)), lambda b, h, q, k: q >= k):
        assert rules(other) is None
    assert rules(masks.and_masks(masks.sliding_window_overlay(4), masks.sliding_window_overlay(3))) is None


@pytest.mark.parametrize("function", ["causal", "sliding", "both", "packed", "chunked"])
def test_a_mask_shows_what_transformers_own_shows(function: str) -> None:
    made = {
        "causal": masks.causal_mask_function,
        "sliding": masks.sliding_window_causal_mask_function(3),
        "both": masks.sliding_window_bidirectional_mask_function(3),
        "packed": masks.and_masks(masks.causal_mask_function, masks.packed_sequence_mask_function(torch.tensor([[0] * 6 + [1] * 9] * 2))),
        "chunked": masks.chunked_causal_mask_function(4, torch.zeros(2, dtype=torch.int64)),
    }[function]
    for queries, keys, q_offset, kv_offset in ((T, T, 0, 0), (2, T, 9, 0), (3, 6, 9, 6)):
        for padding in (None, torch.cat([PADDING.bool(), torch.ones(2, 1, dtype=torch.bool)], 1)):
            sizes = {"batch_size": 2, "q_length": queries, "kv_length": keys, "q_offset": q_offset, "kv_offset": kv_offset}
            want = masks.sdpa_mask(**sizes, mask_function=made, attention_mask=padding, allow_is_causal_skip=False)
            got = _attention.mask(**sizes, mask_function=made, attention_mask=padding)
            assert isinstance(got, _attention.Seen) == (function in ("causal", "sliding", "both"))
            q = torch.zeros(2, 4, queries, 8, dtype=torch.float64)
            value = torch.eye(keys, dtype=torch.float64).expand(2, 4, -1, -1)
            out, _ = _attention.forward(None, q, torch.zeros(2, 4, keys, 8, dtype=torch.float64), value, got)
            assert torch.equal(out.transpose(1, 2) > 0, want.expand(2, 4, -1, -1)), (queries, keys, padding)


def test_a_layer_may_have_a_scheme() -> None:
    eager, ours = pair("llama")
    attend = ours.model.layers[0].self_attn
    attend.phasor_scheme = phasor.nn.T5Scheme(4)
    plain = eager(input_ids=tokens()).logits
    with_scheme = ours(input_ids=tokens()).logits
    assert not torch.allclose(plain, with_scheme)
    with_scheme.sin().sum().backward()
    assert attend.phasor_scheme.weight.grad.abs().sum() > 0 and "model.layers.0.self_attn.phasor_scheme.weight" in ours.state_dict()
    with torch.no_grad():
        attend.phasor_scheme.weight.zero_()
    close(ours(input_ids=tokens()).logits, plain)
    attend.phasor_scheme = None
    ours.model.layers[1].self_attn.__dict__["phasor_scheme"] = [phasor.Alibi(), phasor.Alibi()]
    assert not torch.allclose(ours(input_ids=tokens()).logits, plain)


def test_paged_caches_are_refused() -> None:
    q = torch.zeros(1, 2, 3, 8)
    with pytest.raises(NotImplementedError, match="paged cache"):
        _attention.forward(None, q, q, q, cache=object())
