# SPDX-License-Identifier: Apache-2.0
"""Train one attention layer in PyTorch: gradients flow through the rotation."""

import torch
from torch import nn

import phasor


class Attention(nn.Module):
    """Causal self-attention with rotary encoding."""

    def __init__(self, width: int = 64, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.rope = phasor.Rotary(head_dim=width // heads, base=10000)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).unbind(-3)  # (B, T, H, D), views of one tensor
        q, k = self.rope(q, k)
        y = nn.functional.scaled_dot_product_attention(*(t.transpose(1, 2) for t in (q, k, v)), is_causal=True)
        return self.out(y.transpose(1, 2).flatten(-2))


def main() -> None:
    torch.manual_seed(0)
    layer = Attention()
    optimiser = torch.optim.AdamW(layer.parameters(), lr=1e-2)
    x = torch.randn(4, 33, 64)
    target = x.roll(3, dims=1)  # copy the token three places back: nothing but positions tells which
    losses = []
    for _ in range(60):
        loss = (layer(x) - target)[:, 3:].square().mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    print(f"loss {losses[0]:.3f} -> {losses[-1]:.3f}")
    assert losses[-1] < 0.7 * losses[0]


if __name__ == "__main__":
    main()
