#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails when an #include points against the direction of dependencies: math <- spec <- plan <- job <- {cpu, cuda} <- backend <- ops <- analysis."""
import re
import sys
from pathlib import Path

# One step per line: a stage may include itself and every step above it. Backends do not see each other.
STEPS = [["math"], ["spec"], ["plan"], ["job"], ["cpu", "cuda", "no_cuda"], ["backend", "one_target"], ["ops"], ["analysis"]]
TAKES_THE_PLACE_OF = {"no_cuda": "cuda", "one_target": "backend"}
STAGES = [stage for step in STEPS for stage in step]
SURFACES = ["c", "python", "figures", "bench", "examples"]  # see include/phasor only
SHOWN = ["cli", "web"]  # see figures too, and not each other
EXTENSIONS = {".hpp", ".cpp", ".inl", ".cu", ".cuh", ".h", ".c"}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)


def visible(stage):
    """The stages that `stage` may include."""
    step = next(i for i, names in enumerate(STEPS) if stage in names)
    seen = {name for names in STEPS[:step] for name in names} | {stage}
    return seen | {TAKES_THE_PLACE_OF[stage]} if stage in TAKES_THE_PLACE_OF else seen


def place_of(root, file, target):
    """What an include names: a stage, "phasor" (public), a surface, or None for anything that is not this project's."""
    for base in (file.parent, root / "src", root / "include", root):
        resolved = (base / target).resolve()
        if not resolved.exists() or not resolved.is_relative_to(root):
            continue
        parts = resolved.relative_to(root).parts
        return parts[1] if parts[0] in ("src", "include") else parts[0]
    first = target.split("/")[0]  # a header that is generated or not there yet still has a place
    return first if first in STAGES or first == "phasor" else None


def allowed(owner, place, target):
    if place is None or place == owner:
        return True
    if owner == "phasor":
        return False
    if owner in SURFACES:
        return place == "phasor"
    if owner in SHOWN:
        return place in ("phasor", "figures")
    return place == "phasor" or place in visible(owner)


def formats_itself(owner, file, target):
    """fmt's own headers outside spec/format: what they emit needs fmt's library, which foreign machines do not have."""
    return owner in STAGES and target.startswith("fmt/") and file.stem != "format"


def owners(root):
    """(owner, folder) of everything that is checked."""
    yield "phasor", root / "include" / "phasor"
    for stage in STAGES:
        yield stage, root / "src" / stage
    for surface in [*SURFACES, *SHOWN]:
        yield surface, root / surface


def violations(root):
    root = Path(root).resolve()
    found = []
    src = root / "src"
    if src.is_dir():
        found += [f"src/{d.name}: is no stage, wanted one of {', '.join(STAGES)}" for d in src.iterdir() if d.is_dir() and d.name not in STAGES]
    for owner, folder in owners(root):
        for file in sorted(f for f in folder.rglob("*") if f.suffix in EXTENSIONS):
            text = file.read_text(encoding="utf-8")
            for match in INCLUDE.finditer(text):
                target = match[2]
                line = text.count("\n", 0, match.start(2)) + 1
                if formats_itself(owner, file, target):
                    found.append(f"{file.relative_to(root)}:{line}: includes {target}, wanted spec/format.hpp")
                place = place_of(root, file, target)
                if not allowed(owner, place, target):
                    found.append(f"{file.relative_to(root)}:{line}: includes {target}, {owner} may not see {place}")
    return found


def main():
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parents[1]
    found = violations(root)
    print("\n".join(found) if found else "includes: every dependency points one way")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
