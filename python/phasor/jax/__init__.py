# SPDX-License-Identifier: Apache-2.0
"""Position encodings inside JAX programs: the functions of phasor as calls of XLA, with the bits of the rest of the package.

They work under jit, vmap, grad and shard_map. Specs are those of phasor (`phasor.Rotary`, `phasor.Bias`, `phasor.T5(table)`, ...).
"""

from phasor._needed import needed

needed("jax", by="phasor.jax")

from phasor.jax._additive import add_sinusoidal, sinusoidal
from phasor.jax._attention import attention
from phasor.jax._bias import bias
from phasor.jax._rotary import cos_sin, rotary
from phasor.jax._targets import register

register()

__all__ = ["add_sinusoidal", "attention", "bias", "cos_sin", "rotary", "sinusoidal"]
