# SPDX-License-Identifier: Apache-2.0
"""Draw how the score of two equal tokens falls with their distance, before and after YaRN."""

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

import phasor  # noqa: E402
import phasor.plot  # noqa: E402

plain = phasor.RotarySpec(head_dim=128)
yarn = phasor.RotarySpec(head_dim=128, scaling=phasor.YarnScaling(factor=4, original_length=4096))
figure, ax = plt.subplots(figsize=(7, 4))
phasor.plot.decay({"plain": plain, "YaRN 4": yarn}, ax=ax)
figure.savefig("decay.png", dpi=100)
print(f"decay.png: {len(ax.lines)} curves")
