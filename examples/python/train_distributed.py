# SPDX-License-Identifier: Apache-2.0
"""Train with each sequence over two ranks and the parameters over four (context parallel and FSDP2): the losses are those of one process.

Four processes on this machine, by gloo. Two groups of two: a group shares one batch, whose tokens its ranks share.
"""

import multiprocessing
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard

import phasor
import phasor.distributed

WORDS, WIDTH, HEADS, LAYERS = 32, 64, 4, 2
BATCH, LENGTH, STEPS = 8, 45, 60  # a length that divides by nothing
RANKS, CONTEXT = 4, 2
MODELS = ("T5", "rotary")
Attend = Callable[..., Tensor]


class Layer(nn.Module):
    """Attention and a perceptron. How positions enter, a T5 table or a rotation inside attention, is `positions`' matter."""

    def __init__(self, positions: str) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.RMSNorm(WIDTH) for _ in range(2))
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.out = nn.Linear(WIDTH, WIDTH, bias=False)
        self.up, self.down = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)
        self.scheme = phasor.nn.T5Scheme(heads=HEADS, bidirectional=False) if positions == "T5" else None

    def forward(self, x: Tensor, attend: Attend) -> Tensor:
        q, k, v = self.qkv(self.norms[0](x)).unflatten(-1, (3, HEADS, -1)).unbind(-3)
        scheme = self.scheme(LENGTH) if self.scheme is not None else phasor.Rope(phasor.Rotary(head_dim=WIDTH // HEADS))
        x = x + self.out(attend(q, k, v, scheme, causal=True).flatten(-2))
        return x + self.down(nn.functional.gelu(self.up(self.norms[1](x))))


class Model(nn.Module):
    """A decoder. It never sees positions itself: attention has them."""

    def __init__(self, positions: str) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.layers = nn.ModuleList(Layer(positions) for _ in range(LAYERS))
        self.head = nn.Linear(WIDTH, WORDS, bias=False)

    def forward(self, tokens: Tensor, attend: Attend) -> Tensor:
        x = self.words(tokens)
        for layer in self.layers:
            x = layer(x, attend)
        return self.head(x)


def batches() -> list[tuple[Tensor, Tensor]]:
    """Tokens, and what is to be said at each: the one three places back."""
    draw = torch.Generator().manual_seed(3)
    made = [torch.randint(WORDS, (BATCH, LENGTH), generator=draw) for _ in range(STEPS)]
    return [(x, x.roll(3, 1)) for x in made]


def loss_of(model: Model, tokens: Tensor, target: Tensor, attend: Attend) -> Tensor:
    """The part of these tokens in the mean over all of a step."""
    return nn.functional.cross_entropy(model(tokens, attend).flatten(0, 1), target.flatten(), reduction="sum") / (BATCH * LENGTH)


def model_and_optimiser(positions: str, cut: Callable[[Model], None]) -> tuple[Model, torch.optim.Optimizer]:
    torch.manual_seed(0)  # every process begins with the same model
    model = Model(positions)
    cut(model)
    return model, torch.optim.AdamW(model.parameters(), lr=1e-2)


def alone(positions: str) -> list[float]:
    """The losses of one process."""
    model, optimiser = model_and_optimiser(positions, lambda _: None)
    losses = []
    for tokens, target in batches():
        loss = loss_of(model, tokens, target, phasor.attention)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    return losses


def train_shared(positions: str, mesh: DeviceMesh) -> list[float]:
    """The losses of all processes; each holds some rows of the batch, and of these some tokens."""
    data, context = mesh["data"], mesh["context"]

    def cut(model: Model) -> None:
        everybody = init_device_mesh("cpu", (RANKS,))
        for part in (*model.layers, model):
            fully_shard(part, mesh=everybody)

    def attend(q: Tensor, k: Tensor, v: Tensor, scheme: Any, causal: bool) -> Tensor:
        # FSDP adds the ranks' gradients of every parameter, tables among them: so they stay this rank's part.
        return phasor.distributed.attention(q, k, v, scheme, causal, mesh=context, table_gradients="local")

    model, optimiser = model_and_optimiser(positions, cut)
    share = BATCH // data.size()
    rows = slice(data.get_local_rank() * share, (data.get_local_rank() + 1) * share)
    losses = []
    for whole in batches():
        tokens, target = (phasor.distributed.shard(x[rows], context)[0] for x in whole)
        loss = loss_of(model, tokens, target, attend)
        optimiser.zero_grad()
        (RANKS * loss).backward()  # FSDP takes the mean over ranks, and each has its part of one mean
        optimiser.step()
        total = loss.detach().clone()
        dist.all_reduce(total)
        losses.append(total.item())
    return losses


def rank_of_many(rank: int, store: str, losses_to: Any) -> None:
    """One of four processes."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=RANKS)
    mesh = init_device_mesh("cpu", (RANKS // CONTEXT, CONTEXT), mesh_dim_names=("data", "context"))
    losses = {positions: train_shared(positions, mesh) for positions in MODELS}
    if rank == 0:
        losses_to.send(losses)
    dist.destroy_process_group()


def together() -> dict[str, list[float]]:
    """The losses of four processes, for each model."""
    processes = multiprocessing.get_context("spawn")
    here, there = processes.Pipe(duplex=False)
    with tempfile.TemporaryDirectory() as folder:
        ranks = [processes.Process(target=rank_of_many, args=(rank, str(Path(folder, "store")), there)) for rank in range(RANKS)]
        for rank in ranks:
            rank.start()
        there.close()  # a rank that dies closes the last end, and nobody waits for it
        losses: dict[str, list[float]] = here.recv()
        for rank in ranks:
            rank.join()
    return losses


def main() -> None:
    many = together()
    for positions in MODELS:
        one, four = alone(positions), many[positions]
        apart = max(abs(a - b) for a, b in zip(one, four, strict=True))
        print(f"{positions:7} one process {one[0]:.6f} -> {one[-1]:.6f}, four {four[0]:.6f} -> {four[-1]:.6f}, at most {apart:.1e} apart")
        # The same sums in another order. Adam divides by gradients, some of them near 0, which makes more of a difference with every step.
        assert apart < 1e-4, (one, four)
        assert one[-1] < 0.5 * one[0]


if __name__ == "__main__":
    main()
