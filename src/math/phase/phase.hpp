// SPDX-License-Identifier: Apache-2.0
// Exact phases: position * frequency as a fraction of a turn, by integer multiplication. Nothing here rounds but the step itself.
#pragma once

#include <cmath>

#include "math/portable.hpp"

namespace phasor::math {

/// Turns a position: floor(turns), and the rest as 192 bits, limb 2 the most significant. The step is the nearest multiple of 2^-192
/// to the true value. Whole turns matter at fractional positions only: 2 pi radians a unit has fraction 0, yet 0.5 is half a turn.
struct Step {
  u64 fraction[3];
  i64 whole;
};

/// Turns modulo one, 192 bits, limb 2 the most significant; `error` bounds its distance from the truth, in radians.
struct Phase {
  u64 limb[3];
  double error;
};

/// The top 128 bits of a phase. What the truncation and the step's own rounding cost is in `tiny_bound`.
struct Phase128 {
  u64 high;
  u64 low;
};

/// The top 128 bits of step * position: wrapping multiplication is the reduction modulo one turn, for negative positions too.
PHASOR_HD inline Phase128 phase128_of(const Step& step, i64 position) {
  const u64 m = static_cast<u64>(position);
  const u128 low = static_cast<u128>(step.fraction[1]) * m;
  const u64 high = static_cast<u64>(low >> 64) + step.fraction[2] * m - (position < 0 ? step.fraction[1] : 0);
  return {high, static_cast<u64>(low)};
}

/// All 192 bits of step * position.
PHASOR_HD inline Phase phase_of(const Step& step, i64 position) {
  Phase p{};
  u128 carry = 0;
  for (int i = 0; i < 3; ++i) {
    carry += static_cast<u128>(step.fraction[i]) * static_cast<u64>(position);
    p.limb[i] = static_cast<u64>(carry);
    carry >>= 64;
  }
  if (position < 0) {  // u64(position) was 2^64 too large
    u64 borrow = 0;
    for (int i = 1; i < 3; ++i) {
      const u128 d = static_cast<u128>(p.limb[i]) - step.fraction[i - 1] - borrow;
      p.limb[i] = static_cast<u64>(d);
      borrow = static_cast<u64>(d >> 64) & 1;
    }
  }
  // Half a unit of the step, 2 pi 2^-193 < 2^-190 radians, for every position.
  p.error =
      step.fraction[0] == 0 && step.fraction[1] == 0 && step.fraction[2] == 0 ? 0 : std::fabs(static_cast<double>(position)) * 0x1p-190;
  return p;
}

/// Whether a float64 position has a phase at all.
PHASOR_HD inline bool is_position(double x) { return std::fabs(x) < 0x1p63; }  // false for NaN

namespace detail {

/// 320-bit two's complement product of a signed 64-bit integer and whole.fraction.
PHASOR_HD inline void multiply_signed(const Step& step, i64 factor, u64 product[5]) {
  const u64 fill_step = step.whole < 0 ? ~u64{0} : 0;
  const u64 fill_factor = factor < 0 ? ~u64{0} : 0;
  const u64 a[5] = {step.fraction[0], step.fraction[1], step.fraction[2], static_cast<u64>(step.whole), fill_step};
  const u64 b[5] = {static_cast<u64>(factor), fill_factor, fill_factor, fill_factor, fill_factor};
  for (int i = 0; i < 5; ++i) product[i] = 0;
  for (int i = 0; i < 5; ++i) {
    u128 carry = 0;
    for (int j = 0; i + j < 5; ++j) {
      carry += static_cast<u128>(a[i]) * b[j] + product[i + j];
      product[i + j] = static_cast<u64>(carry);
      carry >>= 64;
    }
  }
}

}  // namespace detail

/// Fractional position x = M 2^e: the whole product M * (whole + fraction), shifted, modulo one turn. Needs is_position(x).
PHASOR_HD inline Phase phase_of(const Step& step, double x) {
  int e = 0;
  const i64 mantissa = static_cast<i64>(std::ldexp(std::frexp(x, &e), 53));
  e -= 53;
  u64 product[5];
  detail::multiply_signed(step, mantissa, product);
  // The product is in units of 2^(e - 192); limb k of the phase is bits [64 k - e, 64 k - e + 64) of it.
  const u64 fill = (product[4] >> 63) != 0 ? ~u64{0} : 0;
  const int shift = -e;  // e <= 10, since |x| < 2^63
  const int words = shift >= 0 ? shift / 64 : -((-shift + 63) / 64);
  const int bits = shift - 64 * words;
  Phase r{};
  for (int i = 0; i < 3; ++i) {
    const int k = i + words;
    const u64 low = k < 0 ? 0 : k > 4 ? fill : product[k];
    const u64 high = k + 1 < 0 ? 0 : k + 1 > 4 ? fill : product[k + 1];
    r.limb[i] = bits == 0 ? low : (low >> bits) | (high << (64 - bits));
  }
  // The step's half unit for every position, and the bits shifted out: one unit, 2 pi 2^-192 < 2^-189 radians.
  r.error = std::fabs(x) * 0x1p-190 + (shift > 0 ? 0x1p-189 : 0);
  return r;
}

}  // namespace phasor::math
