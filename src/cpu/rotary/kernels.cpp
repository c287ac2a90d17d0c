// SPDX-License-Identifier: Apache-2.0
// Rotary kernels for every target: the body (rotary_body.inl) compiled once for plain C++ and once for each instruction set.
#include "cpu/rotary/kernels.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <type_traits>

#include "math/angle.hpp"
#include "math/phase/difference.hpp"
#include "math/phase/sum.hpp"
#include "math/sincos.hpp"

// Only the targets of design.md: the others would cost build time and be tested by nobody.
#define HWY_DISABLED_TARGETS (~(HWY_NEON | HWY_AVX2 | HWY_AVX3 | HWY_WASM | HWY_SCALAR | HWY_EMU128))
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/rotary/kernels.cpp"  // NOLINT: Highway's protocol
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

#if HWY_TARGET == HWY_WASM && !HWY_HAVE_FLOAT64
#include "cpu/common/wasm_double.inl"
#endif

#if HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128
HWY_BEFORE_NAMESPACE();
namespace phasor::cpu::HWY_NAMESPACE {
#define PHASOR_LANES 1
#include "cpu/rotary/body.inl"
#undef PHASOR_LANES
}  // namespace phasor::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#if HWY_ONCE
namespace phasor::cpu {

namespace plain {
#define PHASOR_LANES 0
#include "cpu/rotary/body.inl"
#undef PHASOR_LANES
}  // namespace plain

namespace {

bool always() { return true; }
#if defined(__x86_64__)
bool has_avx2() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2") &&
         __builtin_cpu_supports("f16c");
}
bool has_avx512() {
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512bw");
}
#endif

constexpr RotaryKernels kKernels[] = {
#if HWY_TARGETS & HWY_AVX3
    {"avx512", has_avx512, N_AVX3::rotate_task, N_AVX3::fill_rows_task, N_AVX3::add_task, N_AVX3::lookup_task},
#endif
#if HWY_TARGETS & HWY_AVX2
    {"avx2", has_avx2, N_AVX2::rotate_task, N_AVX2::fill_rows_task, N_AVX2::add_task, N_AVX2::lookup_task},
#endif
#if HWY_TARGETS & HWY_NEON
    {"neon", always, N_NEON::rotate_task, N_NEON::fill_rows_task, N_NEON::add_task, N_NEON::lookup_task},
#endif
#if HWY_TARGETS & HWY_WASM
    {"wasm_simd", always, N_WASM::rotate_task, N_WASM::fill_rows_task, N_WASM::add_task, N_WASM::lookup_task},
#endif
    {"scalar", always, plain::rotate_task, plain::fill_rows_task, plain::add_task, plain::lookup_task},
};

}  // namespace

RotaryKernelTable rotary_kernels() { return {kKernels, static_cast<int>(std::size(kKernels))}; }

}  // namespace phasor::cpu
#endif  // HWY_ONCE
