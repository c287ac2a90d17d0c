# SPDX-License-Identifier: Apache-2.0
"""What bench/gpu/attention_targets.py times: schemes (schemes.py in words of a formula and of phasor), who computes them (contenders.py), and rows of the table (groups.py)."""
