// SPDX-License-Identifier: Apache-2.0
// How far from its law a rotation may be: derived bounds, one table, no literals anywhere else. Nothing here is measured.
#pragma once

#include <cfloat>
#include <cmath>
#include <cstdint>

#include "phasor/tensor_view.hpp"

namespace phasor::laws {

/// Unit roundoffs, half an ulp of 1: of the tables and the arithmetic, and of the one rounding to storage (0 where there is none).
struct Roundoff {
  double arithmetic;
  double storage;
};

constexpr Roundoff roundoff_of(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return {0x1p-24, 0};
    case DType::f64:
      return {0x1p-53, 0};
    case DType::f16:
      return {0x1p-24, 0x1p-11};
    case DType::bf16:
      return {0x1p-24, 0x1p-8};
  }
  return {0, 0};
}

/// In arithmetic roundoffs, times the norm of the pair: the table is the nearest, which is 1, and a complex product of two products and
/// a sum is within sqrt(5) (Brent, Percival, Zimmermann, "Error bounds on complex floating-point multiplication", 2007).
/// 1 + sqrt(5) = 3.23607 rounded up, which covers their product.
inline constexpr double kRotationRoundoffs = 3.2361;

/// Largest error of one rotation of a pair, times amplitude * norm of the pair. Holds without underflow: the laws' data is 0 or at least
/// 2^-4, so that an f16 component may be subnormal (2^-25 off) only beside one so large that u / (1 + u), the true bound of a rounding, is
/// below the u used here by more.
inline double rotation_error(DType dtype) {
  const Roundoff u = roundoff_of(dtype);
  return (1 + kRotationRoundoffs * u.arithmetic) * (1 + u.storage) - 1;
}

/// The same after `count` rotations one after the other.
inline double rotations_error(DType dtype, int count) { return std::expm1(count * std::log1p(rotation_error(dtype))); }

/// Forward, then inverse: two rotations, and 1 / amplitude is rounded to float64 once.
inline double inverse_error(DType dtype) { return rotations_error(dtype, 2) + 0x1p-53; }

/// A pair of a float64 table, relative to its norm: each value is the nearest.
inline constexpr double kTable = 0x1p-53;
/// The product of two such tables' pairs or of their 2 x 2 blocks, itself in higher precision.
inline constexpr double kTableProduct = 2.0001 * kTable;
/// A relative matrix: a table, times the amplitude, rounded.
inline constexpr double kRelativeMatrix = 2.0001 * kTable;

/// A product of a rounded and an exact number, compared with its rounded truth, relative to it.
inline constexpr double kTwiceRounded = 3.0001 * 0x1p-53;
/// Sums of `terms` products in long double, relative to the sum of their magnitudes.
inline double summation_error(std::int64_t terms) { return static_cast<double>(terms + 2) * static_cast<double>(LDBL_EPSILON); }

/// Two phase gradients, one of what was rotated forward, one of what was turned back, relative to the product of the norms: each has the
/// error of one rotation, two products and a difference rounded to float64.
inline double phase_gradient_error(DType dtype) { return 2 * ((1 + rotation_error(dtype)) * (1 + 3.0001 * 0x1p-53) - 1); }
/// Sums of up to `terms` products in float64 by either way, and products of those, relative to the sum of the magnitudes.
inline double chained_error(std::int64_t terms) { return static_cast<double>(terms + 2) * 0x1p-53; }

/// Half a unit of the last decimal that a document prints.
inline double printed_error(int decimals) { return 0.5 * std::pow(10.0, -decimals); }

}  // namespace phasor::laws
