// SPDX-License-Identifier: Apache-2.0
// Which target's kernels are in use.
#pragma once

#include <string_view>

#include "cpu/rotary/kernels.hpp"
#include "phasor/result.hpp"

namespace phasor::cpu {

/// The kernels of the active target; an error when PHASOR_TARGET names none that this machine can run.
Result<const RotaryKernels*> active_kernels();

/// The active target's entry of a table that has one for each of rotary_kernels(), in their order (cpu/common/every_target.inl).
template <class Entry>
Result<const Entry*> active_entry(const Entry* table) {
  const Result<const RotaryKernels*> active = active_kernels();
  if (!active.ok()) return active.status();
  return table + (*active - rotary_kernels().entries);
}

/// "" for the default.
Status force(std::string_view target);

}  // namespace phasor::cpu
