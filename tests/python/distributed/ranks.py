# SPDX-License-Identifier: Apache-2.0
"""Four gloo processes that stay for a whole session of tests: importing PyTorch is what takes time. Groups of 2 and 3 are parts of them."""

from __future__ import annotations

import importlib
import multiprocessing
import os
import tempfile
import traceback
from typing import Any

WORLD = 4


def _serve(rank: int, store: str, folder: str, pipe: Any, world: int) -> None:
    """A rank: runs what it is asked for until it is told to stop."""
    import sys
    from datetime import timedelta

    sys.path.insert(0, folder)
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=world, timeout=timedelta(seconds=60))
    groups = {size: dist.new_group(list(range(size))) for size in range(1, world + 1)}
    while (asked := pipe.recv()) is not None:
        module, name, size, arguments = asked
        if size is not None and rank >= size:
            pipe.send(("ok", None))
            continue
        try:
            torch.manual_seed(7)  # every rank makes the same whole
            function = getattr(importlib.import_module(module), name)
            pipe.send(("ok", function(groups[size or world], *arguments)))
        except BaseException:
            pipe.send(("failed", f"rank {rank}: {traceback.format_exc()}"))
    os._exit(0)


class Ranks:
    """`run(module, function, size, ...)`: on ranks 0 to size - 1 at once, each with the group; what each gave."""

    def __init__(self, world: int = WORLD) -> None:
        self.world = world
        self._start()

    def _start(self) -> None:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["torch", "torch.distributed", "phasor", "phasor.distributed"])
        folder = os.path.dirname(os.path.abspath(__file__))
        self.temporary = tempfile.TemporaryDirectory()
        store = os.path.join(self.temporary.name, "store")
        self.pipes, self.processes = [], []
        for rank in range(self.world):
            here, there = context.Pipe()
            process = context.Process(target=_serve, args=(rank, store, folder, there, self.world), daemon=True)
            process.start()
            there.close()
            self.pipes.append(here)
            self.processes.append(process)

    def post(self, module: str, name: str, size: int | None, *arguments: Any) -> None:
        for pipe in self.pipes:
            pipe.send((module, name, size, arguments))

    def answer(self, rank: int, seconds: float = 120) -> tuple[str, Any]:
        if not self.pipes[rank].poll(seconds):
            raise TimeoutError(f"rank {rank} did not answer within {seconds} s")
        return self.pipes[rank].recv()

    def run(self, module: str, name: str, size: int | None, *arguments: Any) -> list[Any]:
        self.post(module, name, size, *arguments)
        try:
            answers = [self.answer(rank) for rank in range(len(self.pipes))]
            failed = [text for kind, text in answers if kind == "failed"]
            assert not failed, "\n".join(failed)
        except BaseException:  # ranks that wait for each other, or are out of step, are no good to the next test
            self.stop()
            self._start()
            raise
        return [value for _, value in answers]

    def stop(self) -> None:
        for pipe, process in zip(self.pipes, self.processes):
            try:
                pipe.send(None)
            except OSError:
                pass  # a rank that a test killed
            process.join(10)
            if process.is_alive():
                process.kill()
            pipe.close()
        self.temporary.cleanup()
