// SPDX-License-Identifier: Apache-2.0
// Division of counts: a GPU divides 32 bits much faster than 64, and nearly every count has fewer.
#pragma once

#include <cstdint>

#include "math/portable.hpp"

namespace phasor::cuda {

using std::int64_t;

/// n / by, neither of them negative.
PHASOR_HD inline int64_t divided(int64_t n, int64_t by) {
  const auto narrow = static_cast<std::uint32_t>(n);
  const auto narrow_by = static_cast<std::uint32_t>(by);
  return n == narrow && by == narrow_by ? narrow / narrow_by : n / by;
}

/// A number that a launch knows and its threads divide by: two products instead of a division.
struct Divisor {
  math::u64 by = 1;
  math::u64 inverse = ~math::u64{0};  // of 2^64, rounded down
};
inline Divisor divisor_of(int64_t by) { return {static_cast<math::u64>(by), ~math::u64{0} / static_cast<math::u64>(by)}; }

/// n / by, n not negative. inverse = (2^64 - e) / by with 1 <= e <= by, so the product is less than n / 2^64 < 1/2 below the quotient: it
/// is that, or one less.
PHASOR_HD inline int64_t divided(int64_t n, const Divisor& divisor) {
  const auto whole = static_cast<math::u64>(n);
#ifdef __CUDA_ARCH__
  const math::u64 below = __umul64hi(whole, divisor.inverse);
#else
  const auto below = static_cast<math::u64>(math::u128{whole} * divisor.inverse >> 64);
#endif
  return static_cast<int64_t>(whole - below * divisor.by >= divisor.by ? below + 1 : below);
}

}  // namespace phasor::cuda
