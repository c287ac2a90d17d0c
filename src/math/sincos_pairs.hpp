// SPDX-License-Identifier: Apache-2.0
// Level 1 of exact cos and sin without float64: pairs of float32 (high + low), for machines whose float64 is slow. It gives the same
// float32 as sincos.inl wherever both prove theirs, since what is proven is the nearest one.
#pragma once

#include <cmath>

#include "math/one_lane.hpp"
#include "math/phase/phase.hpp"
#include "math/sincos.hpp"

namespace phasor::math {

/// high + low, |low| <= ulp(high) / 2.
struct FloatPair {
  float high;
  float low;
};

PHASOR_HD constexpr FloatPair pair_of(double x) {
  return {static_cast<float>(x), static_cast<float>(x - static_cast<double>(static_cast<float>(x)))};
}

namespace detail {

PHASOR_HD inline int leading_zeros(u32 x) {
#ifdef __CUDA_ARCH__
  return __clz(static_cast<int>(x));
#else
  return x == 0 ? 32 : __builtin_clz(x);
#endif
}
/// The top word of (high, low) shifted left, by less than 32.
PHASOR_HD inline u32 shifted_word(u32 high, u32 low, int by) {
#ifdef __CUDA_ARCH__
  return __funnelshift_l(low, high, static_cast<unsigned>(by));
#else
  return static_cast<u32>((((u64{high} << 32) | low) << by) >> 32);
#endif
}

// Horner's rule in pairs, a fused step of six operations: high = p z + c; c - high is exact, since |p z| < 0.31 |c|, so what the sum lost
// is one more fused product; low = that + (p.high z.low + c.low + p.low z.high).
PHASOR_HD inline FloatPair next_term(FloatPair p, FloatPair z, FloatPair c) {
  const float high = fmaf(p.high, z.high, c.high);
  const float lost = fmaf(p.high, z.high, c.high - high);
  return {high, lost + fmaf(p.low, z.high, fmaf(p.high, z.low, c.low))};
}
/// The step from one float32 to the first pair: the terms before need no more.
PHASOR_HD inline FloatPair first_pair(float p, FloatPair z, FloatPair c) {
  const float high = fmaf(p, z.high, c.high);
  return {high, fmaf(p, z.high, c.high - high) + c.low};
}
template <class Terms, int i>
PHASOR_HD inline FloatPair pair_terms(FloatPair z, FloatPair sum) {
  if constexpr (i == Terms::count) {
    return sum;
  } else {
    constexpr FloatPair term = pair_of(Terms::at(i));
    return pair_terms<Terms, i + 1>(z, next_term(sum, z, term));
  }
}
template <class Terms>
PHASOR_HD inline FloatPair pair_polynomial(FloatPair z) {
  constexpr auto first = static_cast<float>(Terms::at(0));
  constexpr auto second = static_cast<float>(Terms::at(1));
  constexpr FloatPair third = pair_of(Terms::at(2));
  return pair_terms<Terms, 3>(z, first_pair(fmaf(z.high, first, second), z, third));
}

/// high + low made a pair again.
PHASOR_HD inline FloatPair quick_pair(float high, float low) {
  const float sum = high + low;
  return {sum, (high - sum) + low};
}
PHASOR_HD inline FloatPair times(FloatPair a, FloatPair b) {
  const float high = a.high * b.high;
  return quick_pair(high, fmaf(a.high, b.high, -high) + fmaf(a.high, b.low, a.low * b.high));
}

/// The angle from the nearest multiple of a quarter turn, in quarter turns: its magnitude, its sign as a mask of bits, its top word.
struct ReducedPair {
  FloatPair u;
  u32 sign;
  u32 top;  // units of 2^-32 turns
};
PHASOR_HD inline ReducedPair reduce_to_pair(Phase128 phase) {
  const int rest = static_cast<int>(static_cast<u32>(phase.high >> 32) << 2) >> 2;
  const u32 sign = static_cast<u32>(rest >> 31);
  // The ones' complement is one unit of 2^-96 turns off where the angle is negative.
  const u32 word[3] = {static_cast<u32>(rest) ^ sign, static_cast<u32>(phase.high) ^ sign, static_cast<u32>(phase.low >> 32) ^ sign};
  const int zeros = leading_zeros(word[0]);
  const u32 first = shifted_word(word[0], word[1], zeros & 31);
  const u32 second = shifted_word(word[1], word[2], zeros & 31);
  // 24 bits to nearest, then 32 bits with a sign.
  const u32 high = (first >> 8) + ((first >> 7) & 1);
  const auto low = static_cast<float>(static_cast<int>((first << 24) | (second >> 8)));
  const bool none = word[0] == 0;
  return {{none ? 0.0F : bit_cast<float>(high + (static_cast<u32>(127 - zeros) << 23)),
           none ? 0.0F : low * bit_cast<float>(static_cast<u32>(127 - 54 - zeros) << 23)},
          sign,
          word[0]};
}

/// Sine and cosine of an angle in quarter turns, half of one at most.
PHASOR_HD inline void sincos_of(FloatPair u, FloatPair& s, FloatPair& c) {
  FloatPair z;
  z.high = u.high * u.high;
  z.low = fmaf(u.high + u.high, u.low, fmaf(u.high, u.high, -z.high));
  const FloatPair sine_over_u = pair_polynomial<LongSine>(z);
  const FloatPair raw_cosine = next_term(pair_polynomial<LongCosine>(z), z, {1.0F, 0.0F});
  const float product = u.high * sine_over_u.high;
  const float lost = fmaf(u.low, sine_over_u.high, fmaf(u.high, sine_over_u.low, fmaf(u.high, sine_over_u.high, -product)));
  s = quick_pair(product, lost);
  c = quick_pair(raw_cosine.high, raw_cosine.low);
}

/// Whether `high` is the float32 nearest to the number that the pair stands for, which may be off by its bound (below): with |low| at most
/// half an ulp, adding a little more of it than there is must not round to another float32.
PHASOR_HD inline bool is_rounded(FloatPair x, float more) { return fmaf(x.low, more, x.high) == x.high; }

}  // namespace detail

/// The least distance from a multiple of a quarter turn, in units of 2^-32 turns, at which the 128 bits of phase are off by less than 2^-51
/// of the angle (|m| 2^-128 turns, see sincos.inl) and the three words of reduce_to_pair are enough.
PHASOR_HD inline u32 least_top(i64 position) {
  const int high = static_cast<int>(position >> 32);
  const u32 magnitude = high < 0 ? 0U - static_cast<u32>(high) : static_cast<u32>(high);
  return ((magnitude + 1) >> 13) + 2;
}

// Relative errors: of the angle 2^-48.7 (phase 2^-51, dropped bits 2^-55, the low word's conversion 2^-49); of the sine 2^-43.5 and the
// cosine 2^-43.6, by the sum of every rounding in the steps above with the polynomials' own (Long). An amplitude adds at most eight
// roundings of 2^-48: 2^-43.06. Half an ulp is at least 2^-25 of the value, so a test with 1 + 2^-18 leaves 2^-43.0 of it between the pair
// and the nearest midpoint, and 1 + 2^-17 twice that. tests/math/sincos_pairs_test.cpp looks for a counterexample.
/// Level 1 for one pair, float32 only: the nearest to amplitude * cos and amplitude * sin. Returns whether a rounding is in doubt.
PHASOR_HD inline bool sincos_by_pairs(Phase128 phase, i64 position, FloatPair amplitude, float& cos, float& sin) {
  const detail::ReducedPair r = detail::reduce_to_pair(phase);
  FloatPair s;
  FloatPair c;
  detail::sincos_of(r.u, s, c);
  float more = 1.0F + 0x1p-18F;
  bool small = false;
  if (amplitude.high != 1 || amplitude.low != 0) {
    s = detail::times(s, amplitude);
    c = detail::times(c, amplitude);
    more = 1.0F + 0x1p-17F;
    small = !(fabsf(s.high) > 0x1p-90F) && s.high != 0;  // what a product loses must not be subnormal
    small = small || !(fabsf(c.high) > 0x1p-90F);
  }
  const u32 quadrant = (static_cast<u32>(phase.high >> 32) + 0x20000000U) >> 30;
  const u32 sine_bits = bit_cast<u32>(s.high) ^ (r.sign & 0x80000000U);
  const u32 cosine_bits = bit_cast<u32>(c.high);
  const bool odd = (quadrant & 1) != 0;
  cos = bit_cast<float>((odd ? sine_bits : cosine_bits) ^ (((quadrant + 1) << 30) & 0x80000000U));
  sin = bit_cast<float>((odd ? cosine_bits : sine_bits) ^ ((quadrant << 30) & 0x80000000U));
  return r.top < least_top(position) || small || !detail::is_rounded(s, more) || !detail::is_rounded(c, more);
}

}  // namespace phasor::math
