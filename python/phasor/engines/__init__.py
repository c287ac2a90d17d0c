# SPDX-License-Identifier: Apache-2.0
"""What the adapters of inference engines share (phasor-vllm, phasor-sglang): an engine's rotary layer read by its attributes, checked
against the layer's own table, and the rotation in its place. Nothing here imports an engine."""

from phasor._needed import needed

needed("torch", by="phasor.engines")

from ._kinds import KINDS, Kind, kind_of
from ._profile import PROFILES, profile_named
from ._specs import Reading, Unlike, read
from ._turn import Turner, turner_of, turned_by_tables

__all__ = ["KINDS", "PROFILES", "Kind", "Reading", "Turner", "Unlike", "kind_of", "profile_named", "read", "turned_by_tables", "turner_of"]
