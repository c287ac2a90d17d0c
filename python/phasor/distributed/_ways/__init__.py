# SPDX-License-Identifier: Apache-2.0
"""The three ways in which queries meet the keys of other ranks, each a module with `forward` and `backward` of a job."""
