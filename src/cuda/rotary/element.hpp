// SPDX-License-Identifier: Apache-2.0
// Elements of tensors on a device: how a dtype is stored and computed with, and vectors of them.
#pragma once

#include <cstdint>
#include <type_traits>
#include <utility>

#include "math/sincos.hpp"
#include "phasor/tensor_view.hpp"

namespace phasor::cuda {

#ifdef __CUDA_ARCH__
// The machine's own conversions: the same numbers as math's, but for the bits of a NaN.
__device__ inline float machine_widen_f16(std::uint16_t x) {
  float y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x));
  return y;
}
__device__ inline std::uint16_t machine_narrow_f16(float x) {
  std::uint16_t y;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y) : "f"(x));
  return y;
}
__device__ inline std::uint16_t machine_narrow_bf16(float x) {
  std::uint16_t y;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y) : "f"(x));
  return y;
}
/// Two neighbours in one word, the first in its low half.
__device__ inline std::uint32_t machine_narrow_f16(float first, float second) {
  std::uint32_t y;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(second), "f"(first));
  return y;
}
__device__ inline std::uint32_t machine_narrow_bf16(float first, float second) {
  std::uint32_t y;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(second), "f"(first));
  return y;
}
#endif

template <DType dtype>
struct Element {
  static constexpr bool kHalf = dtype == DType::f16 || dtype == DType::bf16;
  using Storage = std::conditional_t<dtype == DType::f64, double, std::conditional_t<dtype == DType::f32, float, std::uint16_t>>;
  using Value = std::conditional_t<dtype == DType::f64, double, float>;

  PHASOR_HD static Value widen(Storage x) {
    if constexpr (dtype == DType::f16) {
#ifdef __CUDA_ARCH__
      return machine_widen_f16(x);
#else
      return math::widen_f16(math::One<float>(), math::u32{x});
#endif
    } else if constexpr (dtype == DType::bf16) {
      return math::widen_bf16(math::One<float>(), math::u32{x});
    } else {
      return x;
    }
  }
  PHASOR_HD static Storage narrow(Value x) {
    if constexpr (dtype == DType::f16) {
#ifdef __CUDA_ARCH__
      return machine_narrow_f16(x);
#else
      return static_cast<std::uint16_t>(math::narrow_f16(math::One<float>(), x));
#endif
    } else if constexpr (dtype == DType::bf16) {
#ifdef __CUDA_ARCH__
      return machine_narrow_bf16(x);
#else
      return static_cast<std::uint16_t>(math::narrow_bf16(math::One<float>(), x));
#endif
    } else {
      return x;
    }
  }
  /// Two neighbours of 16 bits as one word.
  PHASOR_HD static std::uint32_t narrow(Value first, Value second) {
    static_assert(kHalf);
#ifdef __CUDA_ARCH__
    return dtype == DType::f16 ? machine_narrow_f16(first, second) : machine_narrow_bf16(first, second);
#else
    return narrow(first) | std::uint32_t{narrow(second)} << 16;
#endif
  }
};

/// body(0), ..., body(count - 1) with numbers that the compiler knows: what they index stays in registers.
template <int count, class Body>
PHASOR_HD inline void unrolled(const Body& body) {
  [&]<int... i>(std::integer_sequence<int, i...>) {
    (body(std::integral_constant<int, i>()), ...);
  }(std::make_integer_sequence<int, count>());
}

/// Neighbouring elements, read and written at once.
template <class Storage, int count>
struct alignas(sizeof(Storage) * count) Vector {
  Storage at[count];
};

}  // namespace phasor::cuda
