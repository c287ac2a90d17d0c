# SPDX-License-Identifier: Apache-2.0
"""Ranks for the tests of this folder, started once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from ranks import Ranks


@pytest.fixture(scope="session")
def ranks() -> Iterator[Any]:
    started = Ranks()
    yield started
    started.stop()
