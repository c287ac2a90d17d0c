// SPDX-License-Identifier: Apache-2.0
// Kernels for every target: compiles the file that PHASOR_BODY names once for each instruction set, in phasor::cpu::N_..., with
// PHASOR_LANES 1, and once for plain C++, in phasor::cpu::plain, with PHASOR_LANES 0. That file defines kKernels, its entries for one
// target; they become kOfEveryTarget, best target first. So all such tables have the same targets in the same order. Once in a source,
// after its other includes.

// Only the targets that docs/design/overview.md names: the others would cost build time and be tested by nobody.
#define HWY_DISABLED_TARGETS (~(HWY_NEON | HWY_AVX2 | HWY_AVX3 | HWY_WASM | HWY_SCALAR | HWY_EMU128))
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/common/every_target.inl"  // NOLINT: Highway's protocol
#include <hwy/foreach_target.h>                           // must come before highway.h
#include <hwy/highway.h>

#if HWY_TARGET == HWY_WASM && !HWY_HAVE_FLOAT64
#include "cpu/common/wasm_double.inl"
#endif

#if HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128
HWY_BEFORE_NAMESPACE();
namespace phasor::cpu::HWY_NAMESPACE {
#define PHASOR_LANES 1
#include PHASOR_BODY
#undef PHASOR_LANES
}  // namespace phasor::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#if HWY_ONCE
namespace phasor::cpu {

namespace plain {
#define PHASOR_LANES 0
#include PHASOR_BODY
#undef PHASOR_LANES
}  // namespace plain

namespace {

constexpr decltype(plain::kKernels) kOfEveryTarget[] = {
#if HWY_TARGETS & HWY_AVX3
    N_AVX3::kKernels,
#endif
#if HWY_TARGETS & HWY_AVX2
    N_AVX2::kKernels,
#endif
#if HWY_TARGETS & HWY_NEON
    N_NEON::kKernels,
#endif
#if HWY_TARGETS & HWY_WASM
    N_WASM::kKernels,
#endif
    plain::kKernels,
};

}  // namespace
}  // namespace phasor::cpu
#endif  // HWY_ONCE
