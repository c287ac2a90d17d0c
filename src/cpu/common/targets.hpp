// SPDX-License-Identifier: Apache-2.0
// Which target's kernels are in use.
#pragma once

#include <string_view>

#include "cpu/rotary/kernels.hpp"
#include "phasor/result.hpp"

namespace phasor::cpu {

/// The kernels of the active target; an error when PHASOR_TARGET names none that this machine can run.
Result<const RotaryKernels*> active_kernels();

/// "" for the default.
Status force(std::string_view target);

}  // namespace phasor::cpu
