# SPDX-License-Identifier: Apache-2.0
"""Tiny random models of every architecture of transformers, and what phasor.hf.patch makes of them."""
