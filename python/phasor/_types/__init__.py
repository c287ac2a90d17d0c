# SPDX-License-Identifier: Apache-2.0
"""Dataclasses that the package gives and takes, by the module that shows them."""
