# SPDX-License-Identifier: Apache-2.0
"""The core of phasor with CUDA kernels. There is nothing to import here: phasor finds it (phasor/_cuda.py)."""

VERSION = "0.1.0"
