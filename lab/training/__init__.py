# SPDX-License-Identifier: Apache-2.0
"""Training: `trainer` (a whole one), `step` (one step and its plan), `captured` (the step as a CUDA graph), `checkpoint` (a training on disk)."""
