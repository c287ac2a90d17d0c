# SPDX-License-Identifier: Apache-2.0
"""Models trained at one length with every way of telling positions, measured at longer ones. `python -m lab`."""
