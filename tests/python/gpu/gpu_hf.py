# SPDX-License-Identifier: Apache-2.0
"""phasor.hf on models that are on a GPU: patched ones stay bit for bit, and the report says what was replaced; phasor as their attention."""

from __future__ import annotations

from typing import Any

import torch

import phasor
from cases import DEVICE, NotRun, module_or_not_run, needs_gpu, same_bits

SMALL = {
    "vocab_size": 128,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
}
# model type: what its config has beside those
MODELS: dict[str, dict[str, Any]] = {
    "llama": {"rope_theta": 5e5},
    "qwen3": {"head_dim": 32},
    "mistral": {},
    "gemma2": {"head_dim": 32},
    "phi3": {"pad_token_id": 0},
    "gpt_neox": {"rotary_pct": 0.25},
    "cohere": {},
    "olmo2": {},
}


def model_of(kind: str, dtype: torch.dtype) -> Any:
    """A small model with random weights; the same ones every time."""
    transformers = module_or_not_run("transformers")
    known = {**SMALL, **MODELS[kind], "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
    torch.manual_seed(3)
    config = transformers.AutoConfig.for_model(kind, **known)
    return transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager").to(DEVICE, dtype).eval()


def logits(model: Any, tokens: int = 11) -> torch.Tensor:
    ids = torch.arange(2 * tokens, device=DEVICE).reshape(2, tokens) * 7 % 128
    with torch.no_grad():
        return model(ids, use_cache=False).logits


def test_logits_stay_bit_for_bit() -> None:
    for kind in MODELS:
        for dtype in (torch.float32, torch.bfloat16, torch.float16):
            model = model_of(kind, dtype)
            before = logits(model)
            report = phasor.hf.patch(model)
            assert report.rotations and not report.left, (kind, str(report))
            assert same_bits(logits(model), before), (kind, dtype)
            assert same_bits(logits(model), before), (kind, dtype)  # the second call goes without the comparison
            assert not any(calls.differences for calls in report.calls), kind
            phasor.hf.unpatch(model)


def test_gradients_stay_bit_for_bit() -> None:
    for kind in ("llama", "qwen3"):
        for dtype in (torch.float32, torch.bfloat16):
            model = model_of(kind, dtype).train()
            found = []
            for patched in (False, False, True):
                if patched:
                    phasor.hf.patch(model, strict=True)
                model.zero_grad()
                ids = torch.arange(22, device=DEVICE).reshape(2, 11)
                model(ids, labels=ids, use_cache=False).loss.backward()
                found.append([p.grad.clone() for p in model.parameters()])
            if not same_bits(found[1], found[0]):
                raise NotRun(f"the gradients of {kind} in {dtype} are not the same twice without phasor")
            assert same_bits(found[2], found[0]), (kind, dtype)


def test_generation_is_the_same() -> None:
    for kind in ("llama", "qwen3"):
        model = model_of(kind, torch.bfloat16)
        ids = torch.arange(6, device=DEVICE)[None]
        before = model.generate(ids, max_new_tokens=8, do_sample=False)
        phasor.hf.patch(model, strict=True)
        assert torch.equal(model.generate(ids, max_new_tokens=8, do_sample=False), before)


def test_exact_tables() -> None:
    model = model_of("llama", torch.float32)
    before = logits(model)
    report = phasor.hf.patch(model, numerics="exact")
    assert report.tables and not report.left, str(report)
    assert torch.allclose(logits(model), before, atol=1e-4)


def test_a_complex_product_is_answered_by_whoever_has_its_bits() -> None:
    """Llama 4 rotates by complex numbers; where PyTorch fuses their product, its own function must answer."""
    module_or_not_run("transformers")
    try:
        from transformers.models.llama4.modeling_llama4 import apply_rotary_emb
    except ImportError:
        raise NotRun("transformers has no Llama 4") from None
    from phasor.hf._complex import separate_roundings
    from phasor.hf._recognise import Rotation
    from phasor.hf._rewrite import known

    assert isinstance(known(apply_rotary_emb, DEVICE), Rotation) == separate_roundings(DEVICE)


def test_a_patched_model_is_captured() -> None:
    needs_gpu()
    model = model_of("llama", torch.bfloat16)
    phasor.hf.patch(model, strict=True)
    ids, at = torch.arange(12, device=DEVICE).reshape(2, 6), torch.arange(6, device=DEVICE)[None]

    def run() -> torch.Tensor:
        with torch.no_grad():
            return model.model.layers[0].self_attn(model.model.embed_tokens(ids), model.model.rotary_emb(model.model.embed_tokens(ids), at), None)[0]

    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        run()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = run()
    at += 5
    graph.replay()
    assert same_bits(out, run())


def test_attention_of_transformers() -> None:
    """attn_implementation="phasor" beside eager: logits and gradients within roundings to float32."""
    phasor.hf.register_attention()
    for kind in ("llama", "qwen3", "gemma2"):
        eager = model_of(kind, torch.float32).to(DEVICE)
        eager.set_attn_implementation("eager")
        ours = model_of(kind, torch.float32).to(DEVICE)
        ours.set_attn_implementation("phasor")
        tokens = torch.randint(3, 128, (2, 70), generator=torch.Generator().manual_seed(1)).to(DEVICE)
        found = []
        for model in (eager, ours):
            logits = model(input_ids=tokens).logits
            logits.sin().sum().backward()
            found.append([logits.detach(), *(p.grad for p in model.parameters() if p.grad is not None)])
        for want, got in zip(*found):
            assert (got - want).abs().max() <= 1000 * 2.0**-24 * want.abs().max(), kind
