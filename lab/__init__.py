# SPDX-License-Identifier: Apache-2.0
"""A first lab: one small model, trained at one length with every way of telling positions, measured at longer ones. `python -m lab --help`."""
