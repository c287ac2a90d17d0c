# SPDX-License-Identifier: Apache-2.0
"""What `patch` did: what was replaced where, and what was left, with the reason; and what real calls showed since."""

from __future__ import annotations

import dataclasses

from ._first_calls import FirstCalls


@dataclasses.dataclass(frozen=True)
class Entry:
    """One function or module class of the model."""

    where: str  # class of the modules; of a function that fell back, its Python module
    what: str  # the function or method
    modules: int  # how many modules of the model
    how: str  # replaced: the pairing and arithmetic, or where the frequencies are from; left: why


@dataclasses.dataclass
class Report:
    """Replaced rotations, replaced tables (numerics="exact"), what was left as it is, and what fell back since."""

    numerics: str
    rotations: list[Entry] = dataclasses.field(default_factory=list)
    tables: list[Entry] = dataclasses.field(default_factory=list)
    left: list[Entry] = dataclasses.field(default_factory=list)
    calls: list[FirstCalls] = dataclasses.field(default_factory=list, repr=False, compare=False)

    @property
    def fell_back(self) -> list[Entry]:
        """Replaced functions that answered a real call otherwise than phasor, as of now: the first call of each kind is done by both."""
        found = Counter()
        for calls in self.calls:
            for how in dict.fromkeys(calls.differences):
                found.add(calls.where, calls.name, how)
        return found.entries()

    def __bool__(self) -> bool:
        return bool(self.rotations or self.tables)

    def __str__(self) -> str:
        lines = [f"phasor.hf.patch, numerics={self.numerics!r}"]
        for title, entries in (("rotation", self.rotations), ("tables", self.tables), ("left", self.left), ("fell back", self.fell_back)):
            lines += [f"  {title}: {e.where} ({e.modules}x) {e.what}: {e.how}" for e in entries]
        if not (self or self.left):
            lines.append("  nothing in this model rotates by cosines and sines")
        return "\n".join(lines)


class Counter:
    """Collects entries; those that differ only in the module become one."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str, str], int] = {}

    def add(self, where: str, what: str, how: str) -> None:
        """Counts one more module."""
        key = (where, what, how)
        self._counts[key] = self._counts.get(key, 0) + 1

    def entries(self) -> list[Entry]:
        """In the order of their first module."""
        return [Entry(where, what, count, how) for (where, what, how), count in self._counts.items()]
