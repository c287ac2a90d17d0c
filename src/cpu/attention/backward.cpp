// SPDX-License-Identifier: Apache-2.0
// The backward of attention for every target (cpu/attention/backward.inl).
#include <algorithm>
#include <cstring>
#include <limits>
#include <type_traits>
#include <variant>

#include "cpu/attention/backward/buffers.hpp"
#include "cpu/attention/kernels.hpp"
#include "cpu/attention/parts.hpp"
#include "cpu/common/targets.hpp"
#include "math/philox.hpp"
#include "math/sincos.hpp"
#include "plan/attention.hpp"

#define PHASOR_BODY "cpu/attention/backward.inl"
#include "cpu/common/every_target.inl"

namespace phasor::cpu {

Result<const AttentionBackwardKernels*> active_attention_backward() { return active_entry(kOfEveryTarget); }

}  // namespace phasor::cpu
