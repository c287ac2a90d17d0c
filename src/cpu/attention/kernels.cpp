// SPDX-License-Identifier: Apache-2.0
// The parts of attention for every target (cpu/attention/parts.inl), for the tests.
#include <algorithm>
#include <cstring>
#include <limits>
#include <type_traits>

#include "cpu/attention/parts.hpp"
#include "math/sincos.hpp"

#define PHASOR_BODY "cpu/attention/parts.inl"
#include "cpu/common/every_target.inl"

namespace phasor::cpu {

AttentionPartsTable attention_parts() { return {kOfEveryTarget, static_cast<int>(std::size(kOfEveryTarget))}; }

}  // namespace phasor::cpu
