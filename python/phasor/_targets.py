# SPDX-License-Identifier: Apache-2.0
"""Targets: the instruction sets the kernels exist for, all of which give the same bits; the version of the library."""

from __future__ import annotations

from phasor import _core

__all__ = ["active_target", "force_target", "targets", "version"]


def targets() -> list[str]:
    """Names of the targets this machine can run, best first.

    >>> import phasor
    >>> phasor.targets()[-1]
    'scalar'
    """
    return _core.targets()


def active_target() -> str:
    """The target in use: the forced one, else the one the environment variable PHASOR_TARGET names, else the best.

    >>> import phasor
    >>> phasor.active_target() in phasor.targets()
    True
    """
    return _core.active_target()


def force_target(name: str) -> None:
    """Uses a target from now on in every thread; "" goes back to the default.

    >>> import phasor
    >>> phasor.force_target("scalar")
    >>> phasor.active_target()
    'scalar'
    >>> phasor.force_target("")
    """
    _core.force_target(name)


def version() -> str:
    """The version of the library.

    >>> import phasor
    >>> phasor.version() == phasor.__version__
    True
    """
    return _core.version()
