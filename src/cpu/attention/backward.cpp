// SPDX-License-Identifier: Apache-2.0
// The backward kernels of attention for every target.
#include <algorithm>
#include <cstring>
#include <limits>
#include <string_view>
#include <type_traits>
#include <variant>

#include "cpu/attention/backward_buffers.hpp"
#include "cpu/attention/kernels.hpp"
#include "cpu/attention/parts.hpp"
#include "cpu/common/targets.hpp"
#include "math/sincos.hpp"

// The targets of cpu/rotary/kernels.cpp.
#define HWY_DISABLED_TARGETS (~(HWY_NEON | HWY_AVX2 | HWY_AVX3 | HWY_WASM | HWY_SCALAR | HWY_EMU128))
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/attention/backward.cpp"  // NOLINT: Highway's protocol
#include <hwy/foreach_target.h>                          // must come before highway.h
#include <hwy/highway.h>

#if HWY_TARGET == HWY_WASM && !HWY_HAVE_FLOAT64
#include "cpu/common/wasm_double.inl"
#endif

#if HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128
HWY_BEFORE_NAMESPACE();
namespace phasor::cpu::HWY_NAMESPACE {
#define PHASOR_LANES 1
#include "cpu/attention/backward.inl"
#undef PHASOR_LANES
}  // namespace phasor::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#if HWY_ONCE
namespace phasor::cpu {

namespace plain {
#define PHASOR_LANES 0
#include "cpu/attention/backward.inl"
#undef PHASOR_LANES
}  // namespace plain

namespace {

constexpr AttentionBackwardKernels kKernels[] = {
#if HWY_TARGETS & HWY_AVX3
    {"avx512", N_AVX3::backward_strip},
#endif
#if HWY_TARGETS & HWY_AVX2
    {"avx2", N_AVX2::backward_strip},
#endif
#if HWY_TARGETS & HWY_NEON
    {"neon", N_NEON::backward_strip},
#endif
#if HWY_TARGETS & HWY_WASM
    {"wasm_simd", N_WASM::backward_strip},
#endif
    {"scalar", plain::backward_strip},
};

}  // namespace

Result<const AttentionBackwardKernels*> active_attention_backward() {
  const Result<const RotaryKernels*> active = active_kernels();
  if (!active.ok()) return active.status();
  const AttentionBackwardKernels* chosen = std::end(kKernels) - 1;
  for (const AttentionBackwardKernels& kernels : kKernels) {
    if (std::string_view(kernels.target) == (*active)->target) chosen = &kernels;
  }
  return chosen;
}

}  // namespace phasor::cpu
#endif  // HWY_ONCE
