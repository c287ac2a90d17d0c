// SPDX-License-Identifier: Apache-2.0
// Rotary kernels for every target (cpu/rotary/body.inl), and which of them this machine runs.
#include "cpu/rotary/kernels.hpp"

#include <hwy/cache_control.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <type_traits>

#include "cpu/common/processor.hpp"
#include "cpu/rotary/sources.hpp"
#include "math/angle.hpp"
#include "math/phase/difference.hpp"
#include "math/phase/sum.hpp"
#include "math/sincos.hpp"

namespace phasor::cpu {
namespace {

bool always() { return true; }

}  // namespace
}  // namespace phasor::cpu

#define PHASOR_BODY "cpu/rotary/body.inl"
#include "cpu/common/every_target.inl"

namespace phasor::cpu {

RotaryKernelTable rotary_kernels() { return {kOfEveryTarget, static_cast<int>(std::size(kOfEveryTarget))}; }

}  // namespace phasor::cpu
