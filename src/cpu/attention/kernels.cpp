// SPDX-License-Identifier: Apache-2.0
// Attention kernels for every target: the body (attention_body.inl) compiled once for plain C++ and once for each instruction set.
#include <algorithm>
#include <cstring>
#include <limits>
#include <type_traits>

#include "cpu/attention/parts.hpp"
#include "math/sincos.hpp"

// The targets of cpu/rotary/kernels.cpp.
#define HWY_DISABLED_TARGETS (~(HWY_NEON | HWY_AVX2 | HWY_AVX3 | HWY_WASM | HWY_SCALAR | HWY_EMU128))
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/attention/kernels.cpp"  // NOLINT: Highway's protocol
#include <hwy/foreach_target.h>                         // must come before highway.h
#include <hwy/highway.h>

#if HWY_TARGET == HWY_WASM && !HWY_HAVE_FLOAT64
#include "cpu/common/wasm_double.inl"
#endif

#if HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128
HWY_BEFORE_NAMESPACE();
namespace phasor::cpu::HWY_NAMESPACE {
#define PHASOR_LANES 1
#include "cpu/attention/body.inl"
#undef PHASOR_LANES
}  // namespace phasor::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#if HWY_ONCE
namespace phasor::cpu {

namespace plain {
#define PHASOR_LANES 0
#include "cpu/attention/body.inl"
#undef PHASOR_LANES
}  // namespace plain

namespace {

constexpr AttentionPartsOfTarget kParts[] = {
#if HWY_TARGETS & HWY_AVX3
    {"avx512", N_AVX3::parts<float>(), N_AVX3::parts<double>()},
#endif
#if HWY_TARGETS & HWY_AVX2
    {"avx2", N_AVX2::parts<float>(), N_AVX2::parts<double>()},
#endif
#if HWY_TARGETS & HWY_NEON
    {"neon", N_NEON::parts<float>(), N_NEON::parts<double>()},
#endif
#if HWY_TARGETS & HWY_WASM
    {"wasm_simd", N_WASM::parts<float>(), N_WASM::parts<double>()},
#endif
    {"scalar", plain::parts<float>(), plain::parts<double>()},
};

}  // namespace

AttentionPartsTable attention_parts() { return {kParts, static_cast<int>(std::size(kParts))}; }

}  // namespace phasor::cpu
#endif  // HWY_ONCE
