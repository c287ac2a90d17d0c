// SPDX-License-Identifier: Apache-2.0
// Differences of exact phases: two rotations made one. Subtraction modulo one turn is integer subtraction, so nothing is lost.
#pragma once

#include "math/sincos.hpp"

namespace phasor::math {

PHASOR_HD inline bool same_step(const Step& a, const Step& b) {
  return a.fraction[2] == b.fraction[2] && a.fraction[1] == b.fraction[1] && a.fraction[0] == b.fraction[0] && a.whole == b.whole;
}

/// a - b, or a + b, modulo one turn.
PHASOR_HD inline Phase128 combine(Phase128 a, Phase128 b, bool add) {
  const u128 x = static_cast<u128>(a.high) << 64 | a.low;
  const u128 y = static_cast<u128>(b.high) << 64 | b.low;
  const u128 r = add ? x + y : x - y;
  return {static_cast<u64>(r >> 64), static_cast<u64>(r)};
}

/// The same with all 192 bits; the errors add up.
PHASOR_HD inline Phase combine(const Phase& a, const Phase& b, bool add) {
  u64 other[3] = {b.limb[0], b.limb[1], b.limb[2]};
  if (!add) detail::negate(other);
  Phase r{};
  u128 carry = 0;
  for (int i = 0; i < 3; ++i) {
    carry += static_cast<u128>(a.limb[i]) + other[i];
    r.limb[i] = static_cast<u64>(carry);
    carry >>= 64;
  }
  r.error = a.error + b.error;
  return r;
}

/// The float32 nearest to amplitude * cos and amplitude * sin of a phase. Its error must be below 2^-125 radians, which a difference of two
/// 64-bit positions keeps: cut to 128 bits it is then off by less than three units, and `tiny_bound_of_fraction` leaves room for 2^12.
PHASOR_HD inline void sincos(const Phase& phase, double amplitude, float& cos, float& sin) {
  if (sincos_proven<Long>({phase.limb[2], phase.limb[1]}, tiny_bound_of_fraction(), amplitude, cos, sin)) {
    sincos_in_doubt(phase, amplitude, cos, sin);
  }
}
/// The float64 ones.
PHASOR_HD inline void sincos(const Phase& phase, double amplitude, double& cos, double& sin) { sincos_double(phase, amplitude, cos, sin); }

}  // namespace phasor::math
