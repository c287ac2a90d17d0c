// SPDX-License-Identifier: Apache-2.0
// The step before attention for every target (cpu/prepare/body.inl).
#include "cpu/prepare/kernels.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#include "cpu/common/targets.hpp"
#include "math/sincos.hpp"

#define PHASOR_BODY "cpu/prepare/body.inl"
#include "cpu/common/every_target.inl"

namespace phasor::cpu {

Result<const PrepareKernels*> active_prepare() { return active_entry(kOfEveryTarget); }

}  // namespace phasor::cpu
