// SPDX-License-Identifier: Apache-2.0
// Tolerances of results against the reference, in ulps, and where each comes from; laws derive theirs in laws/tolerance.hpp.
#pragma once

#include "phasor/tensor_view.hpp"

namespace phasor::test {

struct Tolerance {
  double epsilon;     // one ulp of a number in [1, 2)
  double round_trip;  // forward then inverse (or two sides of an adjoint), in ulps of the pair's norm
};

/// float32 and float64: a rotation rounds two table values, two products and a sum, below 2.5 half ulps of the norm in each channel; two
/// rotations are below 8 half ulps. float16 and bfloat16: only the storage rounds visibly, (sqrt(2) + 1) half ulps for two rotations.
constexpr Tolerance tolerance_of(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return {0x1p-23, 4};
    case DType::f64:
      return {0x1p-52, 4};
    case DType::f16:
      return {0x1p-10, 2};
    case DType::bf16:
      return {0x1p-7, 2};
  }
  return {0, 0};
}

/// Rows against cosl and sinl of a rounded angle: the nearest float32 of either side of a midpoint.
constexpr double row_ulps = 1;

}  // namespace phasor::test
