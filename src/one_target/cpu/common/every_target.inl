// SPDX-License-Identifier: Apache-2.0
// In the place of cpu/common/every_target.inl where the module says which instructions it has, and size counts: kernels for that one target
// alone, without plain C++. A source of kernels finds this file first by the order of include folders (CMakeLists.txt).
#define PHASOR_ONE_TARGET
#define HWY_COMPILE_ONLY_STATIC
#include <hwy/highway.h>

#if HWY_TARGET == HWY_WASM && !HWY_HAVE_FLOAT64
#include "cpu/common/wasm_double.inl"
#endif

HWY_BEFORE_NAMESPACE();
namespace phasor::cpu::HWY_NAMESPACE {
#define PHASOR_LANES 1
#include PHASOR_BODY
#undef PHASOR_LANES
}  // namespace phasor::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

namespace phasor::cpu {
namespace {

constexpr decltype(HWY_NAMESPACE::kKernels) kOfEveryTarget[] = {HWY_NAMESPACE::kKernels};

}  // namespace
}  // namespace phasor::cpu
