# SPDX-License-Identifier: Apache-2.0
"""Encoders of transformers trained for some steps with phasor.attention in the place of their own: losses, times and memory side by side.

  training.py JSON [--device cpu] [--quick] [--seconds N] [NAME...]

T5 (a bias by distance), DeBERTa-v3 (tables on both sides) and a Conformer (Wav2Vec2-BERT, Transformer-XL's scores). Both of a pair begin with the same
weights and see the same inputs; arithmetic is bfloat16 by autocast with float32 weights, so that losses differ by its noise alone: how much that is
shows a third run, theirs with weights moved by half a unit in the last place of bfloat16. A model that fails loses the others nothing; the status is 1
then, and where losses differ by more than noise. --seconds: no model is begun after so many.
"""

from __future__ import annotations

import argparse
import copy
import json
import math
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import Tensor, nn

import phasor


@dataclass(frozen=True)
class Size:
    width: int
    heads: int
    layers: int
    tokens: int
    batch: int
    steps: int


FULL = Size(width=768, heads=12, layers=6, tokens=2048, batch=4, steps=10)
QUICK = Size(width=32, heads=2, layers=2, tokens=37, batch=2, steps=4)
VOCABULARY = 1000
SETTLED = 2  # steps that are not timed: memory is taken, and optimizers make their state
LEAST_NOISE = 2.0**-9  # half a unit of bfloat16


def in_heads(x: Tensor, heads: int) -> Tensor:
    return x.unflatten(-1, (heads, -1))


# ---- Models, and their attention replaced: each layer keeps its own weights ----


def t5(size: Size) -> nn.Module:
    config = transformers.T5Config(
        vocab_size=VOCABULARY, d_model=size.width, d_kv=size.width // size.heads, d_ff=4 * size.width, num_layers=size.layers, num_heads=size.heads, dropout_rate=0.0
    )
    return transformers.T5EncoderModel(config)


def t5_ours(model: Any) -> None:
    layers = [block.layer[0].SelfAttention for block in model.encoder.block]
    first = layers[0]

    def forward_of(layer: Any) -> Callable[..., Any]:
        def forward(x: Tensor, **_: Any) -> tuple[Tensor, None, None]:
            scheme = phasor.T5(first.relative_attention_bias.weight.T, True, layer.relative_attention_max_distance)
            q, k, v = (in_heads(project(x), layer.n_heads) for project in (layer.q, layer.k, layer.v))
            return layer.o(phasor.attention(q, k, v, scheme, scale=1.0).flatten(2)), None, None

        return forward

    for layer in layers:
        layer.forward = forward_of(layer)


def deberta(size: Size) -> nn.Module:
    config = transformers.DebertaV2Config(
        vocab_size=VOCABULARY, hidden_size=size.width, num_attention_heads=size.heads, num_hidden_layers=size.layers, intermediate_size=4 * size.width,
        relative_attention=True, pos_att_type=["c2p", "p2c"], position_buckets=256, max_position_embeddings=512, position_biased_input=False,
        norm_rel_ebd="layer_norm", share_att_key=True, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    return transformers.DebertaV2Model(config)


def deberta_ours(model: Any) -> None:
    def forward_of(layer: Any) -> Callable[..., Any]:
        heads = layer.num_attention_heads
        scale = (3 * layer.attention_head_size) ** -0.5

        def forward(x: Tensor, attention_mask: Tensor, output_attentions: bool = False, rel_embeddings: Any = None, **_: Any) -> tuple[Tensor, None]:
            rows = rel_embeddings[: 2 * layer.pos_ebd_size]
            keys, queries = in_heads(layer.key_proj(rows), heads), in_heads(layer.query_proj(rows), heads)
            scheme = phasor.Deberta(keys, queries, layer.position_buckets, layer.max_relative_positions)
            q, k, v = (in_heads(project(x), heads) for project in (layer.query_proj, layer.key_proj, layer.value_proj))
            return phasor.attention(q, k, v, scheme, scale=scale).flatten(2), None

        return forward

    for layer in model.encoder.layer:
        layer.attention.self.forward = forward_of(layer.attention.self)


class Conformer(nn.Module):
    """The encoder of Wav2Vec2-BERT behind an embedding, so that it has tokens as the others have."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        config = transformers.Wav2Vec2BertConfig(
            hidden_size=size.width, num_attention_heads=size.heads, num_hidden_layers=size.layers, intermediate_size=4 * size.width, position_embeddings_type="relative",
            max_source_positions=max(size.tokens, 64), attention_dropout=0.0, hidden_dropout=0.0, activation_dropout=0.0, conformer_conv_dropout=0.0, layerdrop=0.0,
        )  # fmt: skip
        from transformers.models.wav2vec2_bert.modeling_wav2vec2_bert import Wav2Vec2BertEncoder

        self.embedding = nn.Embedding(VOCABULARY, size.width)
        self.encoder = Wav2Vec2BertEncoder(config)

    def forward(self, tokens: Tensor) -> Any:
        return self.encoder(self.embedding(tokens))


def conformer_ours(model: Any) -> None:
    def forward_of(layer: Any) -> Callable[..., Any]:
        def forward(hidden_states: Tensor, relative_position_embeddings: Any = None, **_: Any) -> tuple[Tensor, None]:
            x = hidden_states
            rows = in_heads(layer.linear_pos(relative_position_embeddings[0]), layer.num_heads)
            scheme = phasor.Conformer(rows, x.shape[1] - 1, layer.pos_bias_u, layer.pos_bias_v)
            q, k, v = (in_heads(project(x), layer.num_heads) for project in (layer.linear_q, layer.linear_k, layer.linear_v))
            return layer.linear_out(phasor.attention(q, k, v, scheme).flatten(2)), None

        return forward

    for layer in model.encoder.layers:
        layer.self_attn.forward = forward_of(layer.self_attn)


MODELS: dict[str, tuple[Callable[[Size], nn.Module], Callable[[Any], None]]] = {
    "T5": (t5, t5_ours),
    "DeBERTa-v3": (deberta, deberta_ours),
    "Conformer": (Conformer, conformer_ours),
}

# ---- Training ----


@dataclass
class Trained:
    losses: list[float]
    milliseconds: float  # of a whole step, with the optimizer: the median
    mebibytes: float  # at the peak, beside what was there before


def train(model: nn.Module, size: Size, device: str) -> Trained:
    """Tokens from the hidden states by the model's own embedding: a task that any encoder learns."""
    on_gpu = device == "cuda"
    generator = torch.Generator().manual_seed(1)
    embedding = next(module for module in model.modules() if isinstance(module, nn.Embedding) and module.num_embeddings == VOCABULARY)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=on_gpu)
    if on_gpu:
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated() if on_gpu else 0
    losses, times = [], []
    for _ in range(size.steps):
        tokens = torch.randint(VOCABULARY, (size.batch, size.tokens), generator=generator).to(device)
        begin = time.perf_counter()
        with torch.autocast(device, torch.bfloat16):
            hidden = model(tokens).last_hidden_state
            loss = nn.functional.cross_entropy((hidden @ embedding.weight.T).float().flatten(0, 1), tokens.roll(1, 1).flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())  # waits
        times.append(time.perf_counter() - begin)
    peak = torch.cuda.max_memory_allocated() - before if on_gpu else 0
    return Trained(losses, 1e3 * statistics.median(times[SETTLED:]), peak / 2**20)


def trained_in_three_ways(name: str, size: Size, device: str) -> dict[str, Trained]:
    """Theirs, ours, and theirs from weights that differ by what bfloat16 does not see."""
    make, replace = MODELS[name]
    torch.manual_seed(0)
    model = make(size).to(device).train()
    start = copy.deepcopy(model.state_dict())
    found = {"theirs": train(model, size, device)}
    model.load_state_dict({key: x * (1 + 2**-9) if x.is_floating_point() else x for key, x in start.items()})
    found["noise"] = train(model, size, device)
    model.load_state_dict(start)
    replace(model)
    found["ours"] = train(model, size, device)
    return found


def worst_difference(a: Trained, b: Trained) -> float:
    return max(abs(x - y) / abs(x) for x, y in zip(a.losses, b.losses, strict=True))


def row_of(name: str, size: Size, device: str) -> dict[str, Any]:
    """What three runs gave, how far ours is from theirs, and the noise."""
    found = trained_in_three_ways(name, size, device)
    difference, noise = (worst_difference(found["theirs"], found[which]) for which in ("ours", "noise"))
    row = {"difference": difference, "noise": noise, **{which: asdict(found[which]) for which in ("theirs", "ours")}}
    if not difference <= max(2 * noise, LEAST_NOISE):
        row["error"] = f"losses differ by {difference:.1e} where noise is {noise:.1e}"
    return row


def printed(name: str, row: dict[str, Any]) -> None:
    if "theirs" in row:
        theirs, ours = row["theirs"], row["ours"]
        ends = f"{ours['losses'][0]:.4f} {ours['losses'][-1]:.4f}"
        times = f"{theirs['milliseconds']:11.1f}{ours['milliseconds']:8.1f}{theirs['milliseconds'] / ours['milliseconds']:8.2f}"
        print(f"{name:12}{ends:>26}{row['difference']:12.1e}{row['noise']:9.1e}{times}{theirs['mebibytes']:12.0f}{ours['mebibytes']:8.0f}")
    if "error" in row:
        print(f"{name}: ERROR: {row['error']}")
    sys.stdout.flush()


def parsed() -> argparse.Namespace:
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("json", type=Path)
    words.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(MODELS)}; all of them")
    words.add_argument("--device", default="cuda")
    words.add_argument("--quick", action="store_true", help="small models")
    words.add_argument("--seconds", type=float, default=math.inf)
    return words.parse_args()


def main() -> int:
    given, begin = parsed(), time.monotonic()
    size = QUICK if given.quick else FULL
    print(f"{size}\n{'':12}{'losses, first and last':>26}{'difference':>12}{'noise':>9}{'ms theirs':>11}{'ours':>8}{'faster':>8}{'MiB theirs':>12}{'ours':>8}")
    rows: dict[str, dict[str, Any]] = {}
    for name in given.names or MODELS:
        try:
            late = time.monotonic() - begin > given.seconds
            rows[name] = {"error": "not begun: the time was over"} if late else row_of(name, size, given.device)
        except Exception as error:  # noqa: BLE001  the other models must not be lost
            rows[name] = {"error": f"{type(error).__name__}: {error}".split("\n")[0][:300]}
        printed(name, rows[name])
        given.json.write_text(json.dumps({"size": asdict(size), "models": rows}, indent=1), encoding="utf-8")
    return int(any("error" in row for row in rows.values()))


if __name__ == "__main__":
    sys.exit(main())
