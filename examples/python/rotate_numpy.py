# SPDX-License-Identifier: Apache-2.0
"""Rotate queries and keys held in NumPy arrays, in place and into new ones, and undo it."""

import numpy as np

import phasor

# Llama 3.1: 32 query heads, 8 key heads.
rope = phasor.Rotary(head_dim=128, base=500000, scaling=phasor.Llama3Scaling(factor=8))
rng = np.random.default_rng(0)
q = rng.standard_normal((1, 16, 32, 128)).astype(np.float32)  # (B, T, H, D)
k = rng.standard_normal((1, 16, 8, 128)).astype(np.float32)

q_rotated, k_rotated = rope(q, k, positions=1_000_000)  # tokens 1000000, 1000001, ...
rope.apply_(q, k, positions=1_000_000)  # the same where they lie
assert np.array_equal(q, q_rotated) and np.array_equal(k, k_rotated)

back = rope(q, positions=1_000_000, inverse=True)
print(f"a head keeps its length: {np.linalg.norm(q[0, 0, 0]):.6f} and {np.linalg.norm(back[0, 0, 0]):.6f}")

# A score depends on the distance of the two tokens alone, wherever they are: move both by ten million positions.
near = rope(q[:, :1], positions=[100]) * rope(q[:, 1:2], positions=[107])
far = rope(q[:, :1], positions=[10_000_100]) * rope(q[:, 1:2], positions=[10_000_107])
print(f"largest change of 32 scores: {np.abs(near.sum(-1) - far.sum(-1)).max():.1e}")

# Tables for somebody else's kernel: the float32 nearest to the true values.
cos, sin = rope.cos_sin(np.arange(16))
print(f"tables of shape {cos.shape}; slowest pair: {rope.frequencies[-1]:.3e} radians per position")
