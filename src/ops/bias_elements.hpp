// SPDX-License-Identifier: Apache-2.0
// Elements of a bias tensor: float64 to any dtype by one rounding, and back; and the fence that exceptions do not pass.
#pragma once

#include <exception>
#include <new>
#include <string>

#include "job/element.hpp"
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

using job::number_of;
using job::with_element;

template <class Body>
Status without_exceptions(const Body& body) {
  try {
    return body();
  } catch (const std::exception&) {  // of std::vector: no memory, or more than can be asked for
    return Status::unsupported("out of memory");
  }
}

}  // namespace phasor
