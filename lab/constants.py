# SPDX-License-Identifier: Apache-2.0
"""Numbers that are choices of ours and the same in every run: for what computes with them, and for the page, which shows them."""

from __future__ import annotations

# Training (lab.training.step).
BETAS = (0.9, 0.95)  # of AdamW
LEAST_RATE = 0.1  # of the highest, at the end
MOST_NORM = 1.0  # of all gradients together
# Biases are added to scores, which go from -10 to 10; Adam moves a number by no more than its rate at a step, and some thousand steps of a
# model's own rate would leave them near zero.
BIAS_RATE = 10.0  # times the model's
TUNE_SLOWER = 5  # the rate of a fine-tune is that of training over this

# Encodings (lab.encodings).
T5_BUCKETS = 32  # at most, and no more than the trained length
FIRE_HIDDEN, FIRE_C, FIRE_EPSILON = 32, 0.1, 1e-6  # c learns from there on
SHAW_CLIP = 16
COPE_POSITIONS = 64  # at most, and no more than the trained length
DEBERTA_BUCKETS = 256  # at most, and no more than half the trained length
XPOS_GAMMA = 0.4
LLAMA4_LAYERS = 4  # of so many layers the last does not rotate

# What rounded angles are measured on (lab.numerics).
NUMERICS_DOCUMENTS, NUMERICS_EXAMPLES = 8, 8
SEARCHED_DOCUMENTS = 4  # the last documents of a store are for searches of factors alone
