// SPDX-License-Identifier: Apache-2.0
// Values of half a vector, and how a pair of them turns.
#pragma once

#include <cstdint>

#include "cuda/rotary/element.hpp"
#include "cuda/rotary/row_value.hpp"

namespace phasor::cuda {

/// Eight bytes as values, and back.
template <DType dtype>
struct EightBytes {
  static constexpr int kCount = static_cast<int>(8 / bytes_of(dtype));
  using T = typename Element<dtype>::Value;
  T at[kCount];

  PHASOR_HD void read(std::uint32_t low, std::uint32_t high) {
    using E = Element<dtype>;
    if constexpr (E::kHalf) {
      at[0] = E::widen(static_cast<std::uint16_t>(low));
      at[1] = E::widen(static_cast<std::uint16_t>(low >> 16));
      at[2] = E::widen(static_cast<std::uint16_t>(high));
      at[3] = E::widen(static_cast<std::uint16_t>(high >> 16));
    } else if constexpr (dtype == DType::f32) {
      at[0] = math::bit_cast<float>(low);
      at[1] = math::bit_cast<float>(high);
    } else {
      at[0] = math::bit_cast<double>(math::u64{high} << 32 | low);
    }
  }
  PHASOR_HD void write(std::uint32_t& low, std::uint32_t& high) const {
    using E = Element<dtype>;
    if constexpr (E::kHalf) {
      low = E::narrow(at[0], at[1]);
      high = E::narrow(at[2], at[3]);
    } else if constexpr (dtype == DType::f32) {
      low = math::bit_cast<std::uint32_t>(at[0]);
      high = math::bit_cast<std::uint32_t>(at[1]);
    } else {
      const auto bits = math::bit_cast<math::u64>(at[0]);
      low = static_cast<std::uint32_t>(bits);
      high = static_cast<std::uint32_t>(bits >> 32);
    }
  }
};

template <class T>
PHASOR_HD inline void turn(T& x, T& y, const CosSin<T>& by) {
  const math::Pair<T> turned = math::rotate<T>({x, y}, {by.cos, by.cos}, {by.sin, by.sin});
  x = turned.x;
  y = turned.y;
}

/// The values of one part of a thread's pairs.
template <class T, int count>
struct alignas(16) PartValues {
  CosSin<T> at[count];
};
template <class T, int count>
PHASOR_HD inline PartValues<T, count> values_at(const CosSin<T>* shared) {
  return *reinterpret_cast<const PartValues<T, count>*>(shared);
}

}  // namespace phasor::cuda
