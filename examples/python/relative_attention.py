# SPDX-License-Identifier: Apache-2.0
"""Attention whose scores know positions, without a table of n x n: what a scheme costs, that it is exact, and that it learns."""

import torch
from torch import nn

import phasor


class Attention(nn.Module):
    """Causal self-attention; how positions enter it is the scheme's matter alone."""

    def __init__(self, scheme: nn.Module, width: int = 64, heads: int = 4) -> None:
        super().__init__()
        self.heads, self.scheme = heads, scheme
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).unbind(-3)  # (B, T, H, D)
        return self.out(phasor.attention(q, k, v, scheme=self.scheme(x.shape[1]), causal=True).flatten(-2))


def train(name: str, scheme: nn.Module) -> None:
    """Copy the token three places back: nothing but positions tells which."""
    torch.manual_seed(0)
    layer = Attention(scheme)
    optimiser = torch.optim.AdamW(layer.parameters(), lr=1e-2)
    x = torch.randn(4, 33, 64)
    losses = []
    for _ in range(60):
        loss = (layer(x) - x.roll(3, dims=1))[:, 3:].square().mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    print(f"{name:15} loss {losses[0]:.3f} -> {losses[-1]:.3f}")
    assert losses[-1] < 0.7 * losses[0]


def main() -> None:
    torch.manual_seed(0)
    q, k, v = torch.randn(3, 1, 1000, 8, 64).unbind()
    table = torch.randn(8, 32)
    out = phasor.attention(q, k, v, scheme=phasor.T5(table), scale=1.0)

    # The same with the bias written out, 8 x 1000 x 1000 numbers of it.
    buckets = torch.from_numpy(phasor.t5_buckets(torch.arange(1000)[:, None] - torch.arange(1000)))
    heads_first = [x.transpose(1, 2) for x in (q, k, v)]
    dense = nn.functional.scaled_dot_product_attention(*heads_first, attn_mask=table[:, buckets][None], scale=1.0).transpose(1, 2)
    print(f"T5's bias inside the kernel and written out are {(out - dense).abs().max():.1e} apart")
    print(phasor.explain_attention(q, k, v, scheme=phasor.T5(table))["words"])

    train("T5", phasor.nn.T5Scheme(heads=4))
    train("Shaw", phasor.nn.ShawScheme(head_dim=16, left=8, right=0))
    train("Transformer-XL", phasor.nn.TransformerXLScheme(heads=4, head_dim=16))


if __name__ == "__main__":
    main()
