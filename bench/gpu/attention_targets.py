# SPDX-License-Identifier: Apache-2.0
"""The table of attention with relative positions: every row beside cuDNN, PyTorch's flash, FlexAttention compiled and dense biases, with its targets.

  attention_targets.py JSON [--only WORDS...] [--seconds N] [--rounds N] [--decode-json FILE] [--device cpu] [--list]

All goes through phasor.attention, as models call it, so what Python and a call's small kernels take is in the times. Contenders of a group are timed
by turns; ratios are of medians of one run. Each is held against float32 with all scores written out before it is timed.

Groups run in a process of their own, one after the other; after a fault in a kernel, or where a group takes more than its limit, a new process goes on
with the next. Each group's rows are written when it ends. --only: groups whose names have one of these words. --seconds: after so many what is under way is stopped; groups
that have ended are in the file, also in the one that ends in .lines if this process is stopped itself.
--device cpu with tiny sizes rehearses this code and says nothing about speed. The status is 1 where a row has an error; a missed target is none.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from schemes import rows as written  # noqa: E402

GROUP_SECONDS = 240  # FlexAttention compiles some kernels in each
WINDOW, FAULT = 256, 3  # FAULT: the status of a process that has written why it ends
Rows = Callable[[], list[written.Row]]


def groups_of(device: str, rounds: int) -> dict[str, Rows]:
    """Every group by its name, what matters most first. A group is made when it runs: nothing takes memory before."""
    from schemes import decoding, groups, memory, others, timed

    scale = groups.FULL if device == "cuda" else groups.TINY
    made: dict[str, Rows] = {}

    def add(name: str, make: Callable[..., timed.Group], *arguments: Any) -> None:
        made[name] = lambda: timed.rows_of(make(scale, *arguments), min(rounds, scale.rounds) if device != "cuda" else rounds, device)

    sizes = [(width, causal) for width in scale.widths for causal in (False, True)]
    for width, causal in sizes:
        add(f"forward D{width} {'causal' if causal else 'full'}", groups.forward, width, causal)
    add("decode", decoding.decode)
    add("rotary D128 full", others.rotary, 128, False)
    for width, causal in sizes:
        add(f"backward D{width} {'causal' if causal else 'full'}", groups.backward, width, causal)
    add("ALiBi", groups.alibi)
    for width in scale.widths:
        add(f"Inkling D{width}", groups.inkling, width)
    add("encoder", others.encoder)
    for width, causal in sizes[1:]:
        add(f"rotary D{width} {'causal' if causal else 'full'}", others.rotary, width, causal)
    for width in (64, 128, 256):
        for causal in (False, True):
            add(f"mma D{width} {'causal' if causal else 'full'}", others.mma, width, causal)
        add(f"mma D{width} window", others.mma, width, True, WINDOW if device == "cuda" else 9)
    for name in memory.SCHEMES:
        made[f"memory {name}"] = partial(memory.memory, name, (16384, 65536) if device == "cuda" else (64, 128), device)
    return made


# ---- The process that runs groups ----


def run_groups(names: list[str], path: Path, device: str, rounds: int) -> None:
    """Appends a line of JSON for each: its name and rows. Ends in the middle of one whose process is of no more use."""
    from schemes import timed, timing

    groups = groups_of(device, rounds)
    for name in names:
        faulthandler.dump_traceback_later(GROUP_SECONDS, exit=True)
        begin = time.monotonic()
        try:
            rows = groups[name]()
        except Exception as error:  # noqa: BLE001  the others must not be lost
            rows = [written.Row(name, "all of it", error=timing.words_of(error))]
            if timing.gave_up(error):
                write_line(path, name, rows, begin)
                os._exit(FAULT)  # the libraries' own ends would fail, too
        write_line(path, name, rows, begin)
        timed.forget()
        reset_compiler()
    faulthandler.cancel_dump_traceback_later()


def reset_compiler() -> None:
    """What FlexAttention compiled for other shapes would be asked for at every call."""
    import torch

    torch._dynamo.reset()


def write_line(path: Path, name: str, rows: list[written.Row], begin: float) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps({"group": name, "seconds": time.monotonic() - begin, "rows": [row.as_json() for row in rows]}) + "\n")


# ---- The process that starts it, again where it ends too early ----


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Whole lines: the last one may be half written."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n")[:-1]] if path.exists() else []


def child(names: list[str], path: Path, given: argparse.Namespace) -> subprocess.Popen[bytes]:
    words = [str(path), "--device", given.device, "--rounds", str(given.rounds), "--groups", *names]
    return subprocess.Popen([sys.executable, __file__, *words], stdin=subprocess.DEVNULL)


def printed(line: dict[str, Any]) -> None:
    rows = [written.row_from(row) for row in line["rows"]]
    print("\n".join([*(written.line_of(row) for row in rows), *(f"<!-- {note} -->" for note in written.notes_of(rows))]), flush=True)


def watch(process: subprocess.Popen[bytes], path: Path, seen: int, end: float) -> int:
    """Prints groups as they end, and stops the process after the time of all. The number of groups that have ended."""
    while True:
        over = process.poll() is not None
        lines = read_lines(path)
        for line in lines[seen:]:
            printed(line)
        seen = len(lines)
        if over:
            return seen
        if time.monotonic() > end:
            process.kill()
        time.sleep(0.2)


def all_groups(names: list[str], given: argparse.Namespace) -> tuple[list[dict[str, Any]], list[str]]:
    """The lines of all groups, and the names of those that were not begun."""
    path = given.json.with_suffix(".lines")
    path.unlink(missing_ok=True)
    begin, left, seen = time.monotonic(), list(names), 0
    while left:
        seconds = time.monotonic() - begin
        if seconds > given.seconds:
            return read_lines(path), left
        process = child(left, path, given)
        seen = watch(process, path, seen, begin + given.seconds)
        done = {line["group"] for line in read_lines(path)}
        left = [name for name in left if name not in done]
        if time.monotonic() - begin > given.seconds:
            return read_lines(path), left
        if left and process.returncode != FAULT:  # it ended in the midst of one
            error = f"its process ended with status {process.returncode}: a fault, or more than {GROUP_SECONDS} s"
            write_line(path, left[0], [written.Row(left.pop(0), "all of it", error=error)], begin)
    for line in read_lines(path)[seen:]:
        printed(line)
    return read_lines(path), left


def parsed() -> argparse.Namespace:
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("json", type=Path)
    words.add_argument("--only", nargs="*", default=[], metavar="WORDS")
    words.add_argument("--seconds", type=float, default=math.inf)
    words.add_argument("--rounds", type=int, default=8)
    words.add_argument("--device", default="cuda")
    words.add_argument("--decode-json", type=Path)
    words.add_argument("--list", action="store_true")
    words.add_argument("--groups", nargs="*", help=argparse.SUPPRESS)
    return words.parse_args()


def main() -> int:
    given = parsed()
    if given.groups is not None:
        run_groups(given.groups, given.json, given.device, given.rounds)
        return 0
    names = [name for name in groups_of(given.device, given.rounds) if not given.only or any(word in name for word in given.only)]
    if given.list:
        print("\n".join(names))
        return 0
    print("\n".join(written.heading()), flush=True)
    lines, left = all_groups(names, given)
    if given.decode_json is not None and given.decode_json.exists():
        from schemes.decoding import of_kernels

        lines.append({"group": "decode kernel alone", "seconds": 0.0, "rows": [row.as_json() for row in of_kernels(given.decode_json)]})
        printed(lines[-1])
    rows = [row for line in lines for row in line["rows"]]
    failed = [f"{row['group']}: {row['name']}: {row['error']}" for row in rows if row["error"]]
    given.json.write_text(json.dumps({"groups": lines, "not_begun": left, "failed": failed}, indent=1), encoding="utf-8")
    given.json.with_suffix(".lines").unlink(missing_ok=True)
    missed = sum(figure["met"] is False for row in rows for figure in row["figures"])
    met = sum(figure["met"] is True for row in rows for figure in row["figures"])
    print(f"\n{met} targets met, {missed} missed; {len(failed)} rows with errors; not run to their end: {', '.join(left) or 'none'}")
    print("\n".join(f"ERROR: {text}" for text in failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
