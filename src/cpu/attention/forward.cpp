// SPDX-License-Identifier: Apache-2.0
// The forward of attention for every target: the loops compiled once for plain C++ and once for each instruction set.
#include "cpu/attention/kernels.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string_view>
#include <type_traits>
#include <variant>

#include "cpu/attention/amx/processor.hpp"
#include "cpu/attention/parts.hpp"
#include "cpu/attention/scratch.hpp"
#include "cpu/common/targets.hpp"
#include "math/sincos.hpp"

// The targets of cpu/rotary/kernels.cpp.
#define HWY_DISABLED_TARGETS (~(HWY_NEON | HWY_AVX2 | HWY_AVX3 | HWY_WASM | HWY_SCALAR | HWY_EMU128))
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/attention/forward.cpp"  // NOLINT: Highway's protocol
#include <hwy/foreach_target.h>                         // must come before highway.h
#include <hwy/highway.h>

#if HWY_TARGET == HWY_WASM && !HWY_HAVE_FLOAT64
#include "cpu/common/wasm_double.inl"
#endif

#if HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128
HWY_BEFORE_NAMESPACE();
namespace phasor::cpu::HWY_NAMESPACE {
#define PHASOR_LANES 1
#include "cpu/attention/forward.inl"
#undef PHASOR_LANES
}  // namespace phasor::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#if HWY_ONCE
namespace phasor::cpu {

namespace plain {
#define PHASOR_LANES 0
#include "cpu/attention/forward.inl"
#undef PHASOR_LANES
}  // namespace plain

namespace {

constexpr AttentionKernels kKernels[] = {
#if HWY_TARGETS & HWY_AVX3
    {"avx512", N_AVX3::pack_panel, N_AVX3::forward_strip, N_AVX3::merge_strip},
#endif
#if HWY_TARGETS & HWY_AVX2
    {"avx2", N_AVX2::pack_panel, N_AVX2::forward_strip, N_AVX2::merge_strip},
#endif
#if HWY_TARGETS & HWY_NEON
    {"neon", N_NEON::pack_panel, N_NEON::forward_strip, N_NEON::merge_strip},
#endif
#if HWY_TARGETS & HWY_WASM
    {"wasm_simd", N_WASM::pack_panel, N_WASM::forward_strip, N_WASM::merge_strip},
#endif
    {"scalar", plain::pack_panel, plain::forward_strip, plain::merge_strip},
};

}  // namespace

Result<const AttentionKernels*> active_attention() {
  const Result<const RotaryKernels*> active = active_kernels();
  if (!active.ok()) return active.status();
  const AttentionKernels* found = std::find_if(std::begin(kKernels), std::end(kKernels) - 1, [&](const AttentionKernels& kernels) {
    return std::string_view(kernels.target) == (*active)->target;
  });
  return found;
}

}  // namespace phasor::cpu
#endif  // HWY_ONCE
