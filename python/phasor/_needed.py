# SPDX-License-Identifier: Apache-2.0
"""What a part of the package needs that the package itself does not."""

from __future__ import annotations

from importlib import import_module


def needed(module: str, *, by: str) -> None:
    """Imports `module`; where it is not installed the error says who wants it and how to get it."""
    try:
        import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module:  # it is there, and misses something itself
            raise
        raise ModuleNotFoundError(f"{by}: {module} is not installed, wanted it: pip install {module}", name=module) from None
