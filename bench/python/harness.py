# SPDX-License-Identifier: Apache-2.0
"""What contenders of the Python benchmark share: the case, the float64 reference, the check, interleaved timing beside `copy_`."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

Q_HEADS, K_HEADS, HEAD_DIM, BASE = 32, 8, 128, 10000.0
DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}
# Largest error allowed before anything is timed, as a share of the largest input: float32 angles lose 1e-4 at position 2047, and
# tables and products in 16 bits some roundings of their dtype. A wrong pairing or sense is off by about 1.
TOLERANCE = {"f32": 5e-4, "bf16": 2e-2, "f16": 3e-3}


@dataclass(frozen=True)
class Case:
    """Rotate q and k of `tokens` tokens, the first at position `first`."""

    tokens: int
    dtype: str
    threads: int

    @property
    def first(self) -> int:
        return 0 if self.tokens > 1 else 2047

    @property
    def name(self) -> str:
        return f"{'prefill' if self.tokens > 1 else 'one token'}, {self.dtype}"

    def inputs(self) -> tuple[torch.Tensor, torch.Tensor]:
        """q and k, (B, T, H, D), contiguous, the same numbers in every process."""
        generator = torch.Generator().manual_seed(6)
        make = lambda heads: torch.randn((1, self.tokens, heads, HEAD_DIM), generator=generator).to(DTYPES[self.dtype])  # noqa: E731
        return make(Q_HEADS), make(K_HEADS)

    def position_ids(self) -> torch.Tensor:
        return torch.arange(self.first, self.first + self.tokens)


@dataclass(frozen=True)
class Contestant:
    """One way to do it: `run` is timed; `output` runs it once on fresh inputs and gives q and k as (B, T, H, D) arrays."""

    label: str
    run: Callable[[], object]
    output: Callable[[], tuple[object, object]]
    pairing: str = "half"


def as_float64(x: object) -> np.ndarray:
    if isinstance(x, torch.Tensor):
        return x.detach().to(torch.float64).numpy()
    return np.asarray(x).astype(np.float64)


def reference(x: torch.Tensor, case: Case, pairing: str) -> np.ndarray:
    """The rotation in float64 with float64 angles."""
    values = as_float64(x)  # (B, T, H, D)
    pairs = HEAD_DIM // 2
    angles = (case.first + np.arange(case.tokens))[:, None] * BASE ** (-np.arange(pairs) / pairs)  # (T, P)
    cos, sin = np.cos(angles)[:, None, :], np.sin(angles)[:, None, :]
    out = np.empty_like(values)
    one, two = (np.s_[..., :pairs], np.s_[..., pairs:]) if pairing == "half" else (np.s_[..., 0::2], np.s_[..., 1::2])
    out[one] = values[one] * cos - values[two] * sin
    out[two] = values[one] * sin + values[two] * cos
    return out


def error_of(contestant: Contestant, case: Case) -> float:
    """The largest error against float64, as a share of the largest input; raises when it is beyond the tolerance."""
    worst = 0.0
    for given, got in zip(case.inputs(), contestant.output(), strict=True):
        wanted = reference(given, case, contestant.pairing)
        found = as_float64(got)
        if found.shape != wanted.shape:
            raise ValueError(f"{contestant.label}: shape {found.shape}, the reference has {wanted.shape}")
        worst = max(worst, float(np.abs(found - wanted).max() / np.abs(as_float64(given)).max()))
    if not worst <= TOLERANCE[case.dtype]:
        raise ValueError(f"{contestant.label}: {case.name}: error {worst:.2g}, at most {TOLERANCE[case.dtype]:g} is allowed")
    return worst


def copy_contestant(case: Case) -> Contestant:
    """The ceiling: `copy_` of q and k."""
    q, k = case.inputs()
    q_out, k_out = torch.empty_like(q), torch.empty_like(k)

    def run() -> None:
        q_out.copy_(q)
        k_out.copy_(k)

    return Contestant("copy_", run, lambda: (q, k))


def calls_a_round(run: Callable[[], object], seconds: float) -> int:
    """How many calls fill a round; at least one."""
    run()
    start = time.perf_counter()
    run()
    once = max(time.perf_counter() - start, 1e-7)
    return max(1, min(20000, int(seconds / once)))


def time_all(contestants: list[Contestant], rounds: int, seconds: float) -> dict[str, list[float]]:
    """Seconds a call of every round; the contestants take turns, each round beginning with another."""
    calls = {c.label: calls_a_round(c.run, seconds) for c in contestants}
    times: dict[str, list[float]] = {c.label: [] for c in contestants}
    for i in range(rounds):
        turn = i % len(contestants)
        for contestant in contestants[turn:] + contestants[:turn]:
            run, count = contestant.run, calls[contestant.label]
            if count > 1:
                run()  # the caches are its own again
            start = time.perf_counter()
            for _ in range(count):
                run()
            times[contestant.label].append((time.perf_counter() - start) / count)
    return times


def measure(case: Case, contestants: list[Contestant], rounds: int) -> list[dict[str, object]]:
    """Checks every contestant, then times all of them beside `copy_`."""
    errors = {c.label: error_of(c, case) for c in contestants}
    ceiling = copy_contestant(case)
    times = time_all([ceiling, *contestants], rounds, 0.002 if case.tokens > 1 else 0.0005)  # short: a busy machine interrupts few of them
    copy_times = times[ceiling.label]
    rows: list[dict[str, object]] = []
    for label, seconds in times.items():
        rows.append(
            {
                "label": label,
                "tokens": case.tokens,
                "dtype": case.dtype,
                "threads": case.threads,
                "error": errors.get(label, 0.0),
                "us": statistics.median(seconds) * 1e6,
                "least_us": min(seconds) * 1e6,
                "copy_us": statistics.median(copy_times) * 1e6,
                # Round by round, so that a slow moment of the machine slows both.
                "fraction": statistics.median(c / s for c, s in zip(copy_times, seconds, strict=True)),
            }
        )
    return rows
