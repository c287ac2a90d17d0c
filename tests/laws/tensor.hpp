// SPDX-License-Identifier: Apache-2.0
// A strided tensor of any dtype that owns its memory, gaps included, and reads and writes it without the library's own conversions.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "math/portable.hpp"
#include "phasor/tensor_view.hpp"

namespace phasor::laws {

/// batch, token, head, channel.
using Index = std::array<std::int64_t, 4>;

inline double value_of_f16(std::uint64_t bits) {
  const int exponent = static_cast<int>(bits >> 10 & 31);
  const auto mantissa = static_cast<double>(bits & 1023);
  const double magnitude = exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
  return (bits >> 15) != 0 ? -magnitude : magnitude;
}

/// Of a normal float16 or zero, exactly.
inline std::uint64_t bits_of_f16(double value) {
  if (value == 0) return 0;
  int exponent = 0;
  const double fraction = std::frexp(std::fabs(value), &exponent);  // in [1/2, 1)
  const auto mantissa = static_cast<std::uint64_t>(std::ldexp(fraction, 11)) - 1024;
  return (value < 0 ? 0x8000U : 0U) | static_cast<std::uint64_t>(exponent + 14) << 10 | mantissa;
}

class Tensor {
 public:
  /// Every element, gaps too, begins as a pattern that no law's data has.
  Tensor(DType dtype, const Extents& shape, const Extents& strides) : dtype_(dtype), shape_(shape), strides_(strides) {
    std::int64_t elements = 1;
    for (int i = 0; i < 4; ++i) elements += (shape[i] - 1) * strides[i];
    memory_.assign(static_cast<std::size_t>(elements * bytes_of(dtype)), std::byte{0xA5});
  }
  Tensor(DType dtype, const Extents& shape) : Tensor(dtype, shape, contiguous_strides(shape)) {}

  DType dtype() const { return dtype_; }
  const Extents& shape() const { return shape_; }
  const Extents& strides() const { return strides_; }
  TensorView view() { return {memory_.data(), dtype_, shape_, strides_}; }
  ConstTensorView view() const { return {memory_.data(), dtype_, shape_, strides_}; }

  std::uint64_t bits(const Index& at) const {
    std::uint64_t bits = 0;  // little-endian, as every machine the library runs on
    std::memcpy(&bits, memory_.data() + offset(at), static_cast<std::size_t>(bytes_of(dtype_)));
    return bits;
  }
  void set_bits(const Index& at, std::uint64_t bits) {
    std::memcpy(memory_.data() + offset(at), &bits, static_cast<std::size_t>(bytes_of(dtype_)));
  }

  double operator[](const Index& at) const {
    const std::uint64_t b = bits(at);
    switch (dtype_) {
      case DType::f32:
        return math::bit_cast<float>(static_cast<std::uint32_t>(b));
      case DType::f64:
        return math::bit_cast<double>(b);
      case DType::f16:
        return value_of_f16(b);
      case DType::bf16:
        return math::bit_cast<float>(static_cast<std::uint32_t>(b << 16));
    }
    return 0;
  }

  /// `value` must be representable: nothing is rounded here.
  void set(const Index& at, double value) {
    const auto single = math::bit_cast<std::uint32_t>(static_cast<float>(value));
    switch (dtype_) {
      case DType::f32:
        return set_bits(at, single);
      case DType::f64:
        return set_bits(at, math::bit_cast<std::uint64_t>(value));
      case DType::f16:
        return set_bits(at, bits_of_f16(value));
      case DType::bf16:
        return set_bits(at, single >> 16);
    }
  }

  /// All the memory, gaps included.
  bool operator==(const Tensor& other) const { return memory_ == other.memory_; }

 private:
  std::size_t offset(const Index& at) const {
    std::int64_t elements = 0;
    for (int i = 0; i < 4; ++i) elements += at[i] * strides_[i];
    return static_cast<std::size_t>(elements * bytes_of(dtype_));
  }

  DType dtype_;
  Extents shape_;
  Extents strides_;
  std::vector<std::byte> memory_;
};

/// Calls f(index of channel 0) for every head of every token of every batch row.
template <class F>
void for_each_head(const Extents& shape, F f) {
  for (std::int64_t b = 0; b < shape[0]; ++b) {
    for (std::int64_t t = 0; t < shape[1]; ++t) {
      for (std::int64_t h = 0; h < shape[2]; ++h) f(Index{b, t, h, 0});
    }
  }
}

inline Index channel(Index head, std::int64_t channel) {
  head[3] = channel;
  return head;
}

}  // namespace phasor::laws
