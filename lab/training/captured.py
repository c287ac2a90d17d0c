# SPDX-License-Identifier: Apache-2.0
"""A step as a CUDA graph: recorded once and replayed for every batch, so that the host launches one thing a step instead of some thousand.

What cannot be captured (something waits for the device, a call is refused) is said, and the step is launched piece by piece as before. Kernels are the
same either way, and so should be the bits: `python -m lab smoke` looks at that before anything is trained.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache

import torch
from torch import Tensor

from lab import device as places
from lab.training.step import Step

WARM_UP = 3  # steps before a capture, as PyTorch wants it: kernels are loaded and libraries have their workspaces
Work = Callable[[], None]


def in_words(error: Exception) -> str:
    lines = str(error).splitlines()
    return f"{type(error).__name__}: {lines[0] if lines else ''}"


class Undo:
    """A step's numbers as they are now, to be put back into the same memory: what warms up must not train."""

    def __init__(self, step: Step) -> None:
        self.step = step
        self.model = {name: value.clone() for name, value in step.model.state_dict().items()}
        self.optimizer = {of: {name: value.clone() for name, value in state.items()} for of, state in step.optimizer.state.items()}

    @torch.no_grad()
    def back(self) -> None:
        for name, value in self.step.model.state_dict().items():
            value.copy_(self.model[name])
        for of, state in self.step.optimizer.state.items():
            for name, value in state.items():
                _put_back(value, self.optimizer.get(of, {}).get(name))
        self.step.optimizer.zero_grad(set_to_none=True)


def _put_back(value: Tensor, before: Tensor | None) -> None:
    """AdamW makes its state in the first step, of zeros; it has to be there before the capture, whose replays would make it anew."""
    if before is None:
        value.zero_()
    else:
        value.copy_(before)


@lru_cache
def _stream(device: torch.device) -> torch.cuda.Stream:
    """One for all captures: cuBLAS keeps 32 MiB for every stream that it ever worked on."""
    return torch.cuda.Stream(device)


class Graphs:
    """Captures on one device, on a stream of their own."""

    def __init__(self, device: torch.device) -> None:
        self.device, self.stream = device, _stream(device)

    def warm(self, work: Work) -> str | None:
        """Some steps on the stream of the captures. In the last of them nothing may wait for the device: in a capture that would break it off. Why it
        waits, or None."""
        with self._beside():
            for _ in range(WARM_UP):
                work()
            before = torch.cuda.get_sync_debug_mode()
            torch.cuda.set_sync_debug_mode("error")
            try:
                work()
            except RuntimeError as error:
                return in_words(error)
            finally:
                torch.cuda.set_sync_debug_mode(before)
        return None

    def record(self, work: Work) -> Work:
        """What replays it. Nothing is computed here."""
        graph, before = torch.cuda.CUDAGraph(), torch.cuda.current_stream(self.device)
        refused: Exception | None = None
        try:
            with torch.cuda.graph(graph, stream=self.stream):
                try:
                    work()
                except Exception as error:  # of the library, say; the capture ends in order, and is thrown away
                    refused = error
        except RuntimeError as broken:
            self._mend(graph, before)
            raise (refused or broken) from None
        if refused is not None:
            raise refused
        return graph.replay

    @contextmanager
    def _beside(self) -> Iterator[None]:
        current = torch.cuda.current_stream(self.device)
        self.stream.wait_stream(current)
        try:
            with torch.cuda.stream(self.stream):
                yield
        finally:
            current.wait_stream(self.stream)

    def _mend(self, graph: torch.cuda.CUDAGraph, before: torch.cuda.Stream) -> None:
        """A capture that CUDA broke off leaves PyTorch on its stream and with its pool open: the next one would fail by that alone."""
        torch.cuda.set_stream(before)
        with suppress(Exception):  # PyTorch may have done it itself, or call it otherwise
            torch._C._cuda_endAllocateToPool(before.device_index, graph.pool())
        torch.cuda.synchronize(self.device)


def graphs_of(device: torch.device, eager: bool = False) -> Graphs | str:
    """Who captures steps there, or why nobody does."""
    if device.type != "cuda":
        return f"a {device.type.upper()} has no graphs"
    return "asked for" if eager else Graphs(device)


def made(step: Step, graphs: Graphs | str) -> tuple[Work, str | None]:
    """What does the step from now on, and why that is no graph (None where it is one). The step has its first batch."""
    if isinstance(graphs, str):
        return step.work, graphs
    undo = Undo(step)
    with torch.random.fork_rng(devices=[step.device] if step.device.type == "cuda" else []):
        try:
            waits = graphs.warm(step.work)
        finally:
            undo.back()
    del undo
    places.forget_peak(step.device)  # a warm-up has two of everything; what a capture allocates is what a step takes, and replays allocate nothing
    if waits is not None:
        return step.work, waits
    try:
        return graphs.record(step.work), None
    except Exception as error:
        step.optimizer.zero_grad(set_to_none=True)
        return step.work, in_words(error)
