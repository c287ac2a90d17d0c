// SPDX-License-Identifier: Apache-2.0
// Elements of a tensor as float64, and back: typed for loops, one by one for what is not on a hot path.
#pragma once

#include <cstdint>

#include "math/elementary.hpp"
#include "math/sincos.hpp"
#include "phasor/tensor_view.hpp"

namespace phasor::job {

PHASOR_HD inline double number_of(float x) { return x; }
PHASOR_HD inline double number_of(double x) { return x; }
PHASOR_HD inline double number_of(Float16 x) { return math::widen_f16(math::One<float>(), math::u32{x.bits}); }
PHASOR_HD inline double number_of(BFloat16 x) { return math::widen_bf16(math::One<float>(), math::u32{x.bits}); }

/// The element nearest to x: one rounding.
template <class T>
PHASOR_HD T element_of(double x) {
  return static_cast<T>(x);
}
template <>
PHASOR_HD inline Float16 element_of<Float16>(double x) {
  return {math::f16_of(x)};
}
template <>
PHASOR_HD inline BFloat16 element_of<BFloat16>(double x) {
  return {math::bf16_of(x)};
}

template <class T>
struct ElementTag {
  using type = T;
};

/// body(ElementTag<T>()) with the T of a dtype that was checked.
template <class Body>
void with_element(DType dtype, const Body& body) {
  switch (dtype) {
    case DType::f32:
      return body(ElementTag<float>());
    case DType::f64:
      return body(ElementTag<double>());
    case DType::f16:
      return body(ElementTag<Float16>());
    case DType::bf16:
      return body(ElementTag<BFloat16>());
  }
}

PHASOR_HD inline double load_element(const void* data, DType dtype, std::int64_t index) {
  const math::One<float> d;
  if (dtype == DType::f64) return static_cast<const double*>(data)[index];
  if (dtype == DType::f32) return static_cast<const float*>(data)[index];
  const math::u32 bits = static_cast<const std::uint16_t*>(data)[index];
  return dtype == DType::f16 ? math::widen_f16(d, bits) : math::widen_bf16(d, bits);
}

/// f16 and bf16 through float32.
PHASOR_HD inline void store_element(void* data, DType dtype, std::int64_t index, double value) {
  const math::One<float> d;
  if (dtype == DType::f64) {
    static_cast<double*>(data)[index] = value;
  } else if (dtype == DType::f32) {
    static_cast<float*>(data)[index] = static_cast<float>(value);
  } else {
    const auto x = static_cast<float>(value);
    static_cast<std::uint16_t*>(data)[index] =
        static_cast<std::uint16_t>(dtype == DType::f16 ? math::narrow_f16(d, x) : math::narrow_bf16(d, x));
  }
}

/// Element (b, t, 0, c).
PHASOR_HD inline std::int64_t index_of(const ConstTensorView& v, std::int64_t b, std::int64_t t, std::int64_t c) {
  return b * v.strides[0] + t * v.strides[1] + c;
}
PHASOR_HD inline double value_at(const ConstTensorView& v, std::int64_t b, std::int64_t t, std::int64_t c) {
  return load_element(v.data, v.dtype, index_of(v, b, t, c));
}

}  // namespace phasor::job
