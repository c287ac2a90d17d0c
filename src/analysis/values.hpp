// SPDX-License-Identifier: Apache-2.0
// Numbers of tensors as float64, and comparisons that do not lose a NaN.
#pragma once

#include <cmath>
#include <cstdint>

#include "math/sincos.hpp"
#include "phasor/tensor_view.hpp"

namespace phasor::analysis {

/// `index` elements from the start.
inline double value_at(const ConstTensorView& x, std::int64_t index) {
  switch (x.dtype) {
    case DType::f32:
      return static_cast<const float*>(x.data)[index];
    case DType::f64:
      return static_cast<const double*>(x.data)[index];
    case DType::f16:
      return math::widen_f16(math::One<float>{}, math::u32{static_cast<const Float16*>(x.data)[index].bits});
    case DType::bf16:
      return math::widen_bf16(math::One<float>{}, math::u32{static_cast<const BFloat16*>(x.data)[index].bits});
  }
  return std::nan("");
}

/// The larger of the two; once NaN, always NaN, so that a broken value is never forgotten.
inline double larger(double a, double b) { return std::isnan(a) || b <= a ? a : b; }

}  // namespace phasor::analysis
