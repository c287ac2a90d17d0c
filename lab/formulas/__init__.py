# SPDX-License-Identifier: Apache-2.0
"""What each label says, from its paper: what lab/identity.py holds encodings against."""
