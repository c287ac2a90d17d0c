# SPDX-License-Identifier: Apache-2.0
"""Every model type's outcome, computed in a few processes, and the table of them in docs/hf.md."""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]
DOCUMENT = ROOT / "docs" / "hf.md"
BEGIN, END = "<!-- table: made by tools/make_hf_table.py -->", "<!-- end of table -->"
DTYPES = ("float32", "bfloat16")
Row = dict[str, Any]


def outcomes(processes: int = 2, named: tuple[str, ...] = ()) -> list[Row]:
    """The outcomes of all model types (or those named): importing transformers' models is most of the time, so each process takes many."""
    import phasor

    paths = [str(Path(__file__).parents[1]), str(Path(phasor.__path__[0]).parent), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in paths if p), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "hf_zoo"]
    with contextlib.ExitStack() as opened:
        # Files, not pipes: who writes into a pipe that nobody reads yet waits, and the processes would follow one another.
        files = [opened.enter_context(tempfile.TemporaryFile("w+")) for _ in range(1 if named else processes)]
        running = [
            subprocess.Popen([*command, str(part), str(processes), *named], stdout=file, env=environment) for part, file in enumerate(files)
        ]
        failed = [status for status in [process.wait() for process in running] if status]
        if failed:
            raise RuntimeError(f"hf_zoo: a process ended with {failed[0]}, its errors are above")
        for file in files:
            file.seek(0)
        lines = [line for file in files for line in file.read().splitlines()]
    return sorted((json.loads(line) for line in lines if line.startswith("{")), key=lambda row: row["model_type"])


def rotations(row: Row) -> list[str]:
    """Those that are replaced, here or on a processor that does not fuse a complex product."""
    return row["rotations"] + row["fused"]


def status(row: Row) -> str:
    """What came of a model type, in a word or a sentence, the same on every processor."""
    if row["different"]:
        return f"DIFFERENT in {', '.join(row['different'])}"
    if any(entry.endswith(", complex") for entry in rotations(row)):
        return "bitwise; complex tables: see above" if not row["problem"] else f"patched, {row['problem']}"
    if row["ours"]:
        unable = f" ({', '.join(row['unable'])}: the model itself does not run)" if row["unable"] else ""
        own = "; some calls by the model's own function" if row["own"] else ""
        return f"bitwise{unable}{own}"
    if row["rotations"]:
        why = "all calls by the model's own function" if row["own"] else "not run: this input needs no rotation"
        return f"patched, {row['problem'] or why}"
    return row["problem"] or ("not patched" if row["left"] else "no rotation in it")


def gradient(row: Row) -> str:
    """One backward, patched against unpatched."""
    if not (row["ours"] or row["fused"]) or not row["gradients"]:
        return ""
    words = {}
    for dtype, difference in row["gradients"].items():
        own = " by the model's own function" if dtype in row["own_gradients"] else ""
        words[dtype] = f"{difference:.0e}" if difference else f"bitwise{own}"
    if set(DTYPES) - set(words):
        return "; ".join(f"{dtype}: {word}" for dtype, word in words.items())
    return words[DTYPES[0]] if len(set(words.values())) == 1 else "; ".join(f"{dtype}: {word}" for dtype, word in words.items())


def short(entries: list[str]) -> str:
    """Functions and variants, without the classes they are in."""
    return "<br>".join(dict.fromkeys(entry.split(".", 1)[1].removeprefix("forward: ") for entry in entries))


def table(rows: list[Row], before: str = "") -> str:
    """The table and its sums. A row whose bfloat16 takes this processor too long keeps the results of the document before."""
    known = {tuple(cells): line for cells, line in zip(found(before), _lines(before))} if before else {}
    built = [row for row in rows if row["model"]]
    bitwise = [row for row in rows if (row["ours"] or (row["fused"] and not row["problem"])) and not row["different"]]
    rotating = [row for row in built if rotations(row)]
    differentiated = sum(1 for row in bitwise if row["gradients"] and not any(row["gradients"].values()))
    generated = sum(1 for row in bitwise if row["generates"] == "bitwise")
    nearer = sum(1 for row in bitwise if row["far"])
    lines = [
        f"{len(rows)} model types of folders that mention a rotation; {len(built)} built as tiny models; "
        f"{len(rotating)} rotate and are patched; {len(bitwise)} of these ran, bit for bit; {differentiated} did a backward, bit for bit; "
        f"{generated} generated with a cache, bit for bit; {nearer} were compared with float64 at position 1,000,003.",
        "",
        "| model type | class | rotation | tables with `exact` | left as it is | result | gradients |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        cells = [row["model_type"], row["model"], short(rotations(row)), short(row["tables"]), "<br>".join(row["left"]), status(row)]
        cells.append(gradient(row))
        line = "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
        lines.append(known.get(tuple(line.split(" | ")[:5]), line) if row["too_slow"] else line)
    return "\n".join(lines)


def with_table(document: str, made: str) -> str:
    """The document with this table between its marks."""
    head, rest = document.split(BEGIN)
    return f"{head}{BEGIN}\n{made}\n{END}{rest.split(END)[1]}"


def found(document: str) -> list[list[str]]:
    """What the table says was found in each model. Results are another test's: which gradients are phasor's may depend on the processor."""
    return [line.split(" | ")[:5] for line in _lines(document)]


def _lines(document: str) -> list[str]:
    return [line for line in document.split(BEGIN)[1].split(END)[0].splitlines() if line.startswith("| ")]
