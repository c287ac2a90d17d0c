# SPDX-License-Identifier: Apache-2.0
"""Drop the oldest tokens of a key cache and move the rest back: one exact rotation in place, no key is computed again."""

import numpy as np

import phasor

rope = phasor.Rotary(head_dim=64, base=10000)
rng = np.random.default_rng(0)
keys = rng.standard_normal((40, 8, 64)).astype(np.float32)  # (T, H, D), as the projection gave them
cache = rope(keys, positions=0)  # rotated at 0, 1, ..., 39

dropped = 12
kept = cache[dropped:]  # a view: tokens 12 to 39
rope.rerotate_(kept, from_positions=np.arange(dropped, 40), to_positions=np.arange(40 - dropped))
error = np.abs(kept - rope(keys[dropped:], positions=0)).max()
print(f"28 keys moved back by {dropped} positions; off by {error:.1e} from rotating them afresh")
assert error < 2e-6

# The same to another base: a cache of a model that goes on with a longer context.
longer = phasor.Rotary(head_dim=64, base=80000)
longer.rerotate_(kept, 0, 0, source=rope)
error = np.abs(kept - longer(keys[dropped:], positions=0)).max()
print(f"and to base 80000; off by {error:.1e}")
assert error < 4e-6

# The same in a paged cache: blocks of 16 tokens, and the slot of each token; what is in no slot stays as it is.
pages = np.zeros((4, 16, 8, 64), np.float32)
slots = rng.permutation(64)[:28]
pages.reshape(64, 8, 64)[slots] = rope(keys[dropped:], positions=dropped)
rope.rerotate_(pages, dropped, 0, slots=slots)
error = np.abs(pages.reshape(64, 8, 64)[slots] - rope(keys[dropped:], positions=0)).max()
print(f"28 keys moved back within pages; off by {error:.1e}")
assert error < 2e-6
