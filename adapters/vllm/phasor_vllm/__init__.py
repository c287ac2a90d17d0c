# SPDX-License-Identifier: Apache-2.0
"""vLLM's rotary layers by phasor. vLLM calls `register` in every process, by the entry point `vllm.general_plugins`.

PHASOR_VLLM_PROFILE (or `additional_config={"phasor_profile": ...}` of vLLM, which goes before it): "vllm", the default, gives the numbers of
vLLM's own tables, bit for bit; "exact" those of the true angles at any position, without reading a table.
"""

from ._register import VERSIONS, register
from ._state import calls

__all__ = ["VERSIONS", "calls", "register"]
