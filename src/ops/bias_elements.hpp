// SPDX-License-Identifier: Apache-2.0
// Elements of a bias tensor: float64 to any dtype by one rounding, and back; and the fence that exceptions do not pass.
#pragma once

#include <exception>
#include <new>
#include <string>

#include "math/elementary.hpp"
#include "phasor/result.hpp"
#include "phasor/tensor_view.hpp"

namespace phasor {

template <class T>
T element_of(double x) {
  return static_cast<T>(x);
}
template <>
inline Float16 element_of<Float16>(double x) {
  return {math::f16_of(x)};
}
template <>
inline BFloat16 element_of<BFloat16>(double x) {
  return {math::bf16_of(x)};
}

inline double number_of(float x) { return x; }
inline double number_of(double x) { return x; }
inline double number_of(Float16 x) { return math::widen_f16(math::One<float>(), math::u32{x.bits}); }
inline double number_of(BFloat16 x) { return math::widen_bf16(math::One<float>(), math::u32{x.bits}); }

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

template <class Body>
Status without_exceptions(const Body& body) {
  try {
    return body();
  } catch (const std::exception&) {  // of std::vector: no memory, or more than can be asked for
    return Status::unsupported("out of memory");
  }
}

}  // namespace phasor
