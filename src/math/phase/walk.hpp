// SPDX-License-Identifier: Apache-2.0
// Cosines and sines at positions that are evenly apart, each from the one before it, in pairs of float32: a third of the work of
// sincos_pairs. What is rounded to nearest is proven as there, by a bound that grows with the steps.
#pragma once

#include "math/sincos_pairs.hpp"

namespace phasor::math {

/// A point on a circle.
struct WalkedPair {
  FloatPair cos;
  FloatPair sin;
};

namespace detail {

PHASOR_HD inline FloatPair with_sign(FloatPair x, u32 sign) {
  return {bit_cast<float>(bit_cast<u32>(x.high) ^ sign), bit_cast<float>(bit_cast<u32>(x.low) ^ sign)};
}
/// a b + c d. The sum of the two high products may cancel, so nothing of it is lost.
PHASOR_HD inline FloatPair sum_of_products(FloatPair a, FloatPair b, FloatPair c, FloatPair d) {
  const float p = a.high * b.high;
  const float q = c.high * d.high;
  const float p_low = fmaf(a.high, b.low, fmaf(a.low, b.high, fmaf(a.high, b.high, -p)));
  const float q_low = fmaf(c.high, d.low, fmaf(c.low, d.high, fmaf(c.high, d.high, -q)));
  const float sum = p + q;
  const float of_q = sum - p;
  const float lost = (p - (sum - of_q)) + (q - of_q);
  return quick_pair(sum, lost + (p_low + q_low));
}

}  // namespace detail

/// The point of a phase. False where the phase is so near to a quarter turn that its three words are too few: then there is none.
PHASOR_HD inline bool point_of(Phase128 phase, i64 position, WalkedPair& point) {
  const detail::ReducedPair r = detail::reduce_to_pair(phase);
  if (r.top < least_top(position)) return false;
  FloatPair s;
  FloatPair c;
  detail::sincos_of(r.u, s, c);
  s = detail::with_sign(s, r.sign & 0x80000000U);
  const u32 quadrant = (static_cast<u32>(phase.high >> 32) + 0x20000000U) >> 30;
  const bool odd = (quadrant & 1) != 0;
  point.cos = detail::with_sign(odd ? s : c, ((quadrant + 1) << 30) & 0x80000000U);
  point.sin = detail::with_sign(odd ? c : s, (quadrant << 30) & 0x80000000U);
  return true;
}
PHASOR_HD inline WalkedPair times(const WalkedPair& point, FloatPair amplitude) {
  return {detail::times(point.cos, amplitude), detail::times(point.sin, amplitude)};
}
/// The point turned by another, which lies on the unit circle.
PHASOR_HD inline WalkedPair turned(const WalkedPair& point, const WalkedPair& by) {
  return {detail::sum_of_products(point.cos, by.cos, detail::with_sign(point.sin, 0x80000000U), by.sin),
          detail::sum_of_products(point.sin, by.cos, point.cos, by.sin)};
}

PHASOR_HD inline WalkedPair reversed(const WalkedPair& by) { return {by.cos, detail::with_sign(by.sin, 0x80000000U)}; }

// Errors of a point as a vector, with u = 2^-24 and a circle of radius 1. A point and a turn begin with 2^-43.5 = 23 u^2
// (sincos_pairs.hpp); an amplitude adds 8 u^2. A step adds the turn's 23 u^2 and its own: each product 2 + 3 + 1 of u^2 (two roundings, and
// the product of the low parts that is dropped), weighted by |a b| + |c d| <= 1; the sum of the low parts 3 + 4, the last pair 4 where the
// high parts cancel (else nothing): 17 u^2 of each coordinate, 24 of both. So 31 + 47 n after n steps. tests/math/sincos_walk_test.cpp
// looks for a counterexample.
/// What each coordinate is off by, at most, after so many steps on a circle of radius 1.
PHASOR_HD constexpr float walk_error(int steps) { return static_cast<float>(40 + 48 * steps) * 0x1p-48F; }

/// Whether `high` is the float32 nearest to every number that is not further than `error` from the pair. To both sides, since the float32
/// below a power of two are nearer than those above.
PHASOR_HD inline bool is_rounded_within(FloatPair x, float error) {
  return x.high + (x.low + error) == x.high && x.high + (x.low - error) == x.high;
}

}  // namespace phasor::math
