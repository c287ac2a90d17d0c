// SPDX-License-Identifier: Apache-2.0
// The forward of attention for every target (cpu/attention/forward.inl).
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>
#include <variant>

#include "cpu/attention/amx/processor.hpp"
#include "cpu/attention/kernels.hpp"
#include "cpu/attention/parts.hpp"
#include "cpu/attention/scratch.hpp"
#include "cpu/common/targets.hpp"
#include "math/philox.hpp"
#include "math/sincos.hpp"
#include "plan/attention.hpp"

#define PHASOR_BODY "cpu/attention/forward.inl"
#include "cpu/common/every_target.inl"

namespace phasor::cpu {

Result<const AttentionKernels*> active_attention() { return active_entry(kOfEveryTarget); }

}  // namespace phasor::cpu
