// SPDX-License-Identifier: Apache-2.0
// Elements of tensors on a device: how a dtype is stored and computed with, and vectors of them.
#pragma once

#include <cstdint>
#include <type_traits>
#include <utility>

#include "math/sincos.hpp"
#include "phasor/tensor_view.hpp"

namespace phasor::cuda {

template <DType dtype>
struct Element {
  static constexpr bool kHalf = dtype == DType::f16 || dtype == DType::bf16;
  using Storage = std::conditional_t<dtype == DType::f64, double, std::conditional_t<dtype == DType::f32, float, std::uint16_t>>;
  using Value = std::conditional_t<dtype == DType::f64, double, float>;

  PHASOR_HD static Value widen(Storage x) {
    if constexpr (dtype == DType::f16) {
      return math::widen_f16(math::One<float>(), math::u32{x});
    } else if constexpr (dtype == DType::bf16) {
      return math::widen_bf16(math::One<float>(), math::u32{x});
    } else {
      return x;
    }
  }
  PHASOR_HD static Storage narrow(Value x) {
    if constexpr (dtype == DType::f16) {
      return static_cast<std::uint16_t>(math::narrow_f16(math::One<float>(), x));
    } else if constexpr (dtype == DType::bf16) {
      return static_cast<std::uint16_t>(math::narrow_bf16(math::One<float>(), x));
    } else {
      return x;
    }
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
