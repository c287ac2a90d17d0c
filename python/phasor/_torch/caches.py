# SPDX-License-Identifier: Apache-2.0
"""Caches of the core's objects. PyTorch holds what is registered with it past the end of the interpreter, so they are emptied before."""

from __future__ import annotations

import atexit
from collections.abc import Callable
from functools import lru_cache
from typing import Any


def cached(function: Callable[..., Any]) -> Any:
    """functools.lru_cache, emptied at exit."""
    wrapped = lru_cache(maxsize=256)(function)
    atexit.register(wrapped.cache_clear)
    return wrapped
