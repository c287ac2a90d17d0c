# SPDX-License-Identifier: Apache-2.0
"""Whose numbers an adapter gives."""

from __future__ import annotations

PROFILES = ("engine", "exact")


def profile_named(where: str, name: str, engine: str) -> str:
    """"engine" for the engine's own name (the same numbers as without us), or "exact"; anything else is an error that says `where`."""
    if name == engine:
        return "engine"
    if name == "exact":
        return name
    raise ValueError(f"{where}: is {name!r}, wanted {engine!r} (the numbers of the engine's own tables) or 'exact' (those of the true angles)")
