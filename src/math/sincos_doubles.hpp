// SPDX-License-Identifier: Apache-2.0
// Level 1 of exact cos and sin in float64 with fused steps, one lane: for GPUs whose float64 is half as fast as float32, on which it takes
// half of what pairs of float32 take (sincos_pairs.hpp). The formula, its bounds and its test are those of sincos.inl, which holds fused or
// not, so what is proven here is what is proven there.
#pragma once

#include <cmath>

#include "math/phase/phase.hpp"
#include "math/sincos.hpp"

namespace phasor::math {

/// phase128_of at a position from 0 to 2^32 - 1: fewer products.
PHASOR_HD inline Phase128 phase128_of_short(u64 step_high, u64 step_low, u32 position) {
  const u64 a = u64{static_cast<u32>(step_low)} * position;
  const u64 b = (step_low >> 32) * position + (a >> 32);
  return {step_high * position + (b >> 32), b << 32 | static_cast<u32>(a)};
}

namespace detail {

template <class Terms, int i = 1>
PHASOR_HD inline double fused_polynomial(double z, double sum = Terms::at(0)) {
  if constexpr (i == Terms::count) {
    return sum;
  } else {
    constexpr double term = Terms::at(i);
    return fused_polynomial<Terms, i + 1>(z, fma(sum, z, term));
  }
}

/// near_midpoint: the 29 bits that float32 drops are in the low word.
PHASOR_HD inline bool is_near_midpoint(double y, u32 doubt) {
  const auto low = static_cast<u32>(bit_cast<u64>(y));
  return ((low + doubt - (u32{1} << 28)) & ((u32{1} << 29) - 1)) < 2 * doubt;
}
PHASOR_HD inline double with_sign_of(double x, u32 word) { return bit_cast<double>(bit_cast<u64>(x) ^ u64{word & 0x80000000U} << 32); }

}  // namespace detail

/// The nearest float32 to amplitude * cos and amplitude * sin. Returns whether a rounding is in doubt.
PHASOR_HD inline bool sincos_by_doubles(Phase128 phase, i64 position, double amplitude, float& cos, float& sin) {
  const u64 turned = phase.high + (u64{1} << 61);  // an eighth of a turn further, the quadrant is the two highest bits
  const auto quadrant = static_cast<u32>(turned >> 32);
  const auto rest = static_cast<double>(static_cast<i64>(turned << 2 >> 2) - (i64{1} << 61));
  const double below = bit_cast<double>(phase.low >> 12 | u64{0x3ff} << 52) - 1.0;
  const double u = (rest + below) * 0x1p-62;
  const double z = u * u;
  const double s = u * detail::fused_polynomial<LongSine>(z);
  const double c = fma(z, detail::fused_polynomial<LongCosine>(z), 1.0);
  const bool odd = (quadrant & 0x40000000U) != 0;
  double cosine = detail::with_sign_of(odd ? s : c, quadrant + 0x40000000U);
  double sine = detail::with_sign_of(odd ? c : s, quadrant);
  if (amplitude != 1) {
    cosine *= amplitude;
    sine *= amplitude;
  }
  cos = static_cast<float>(cosine);
  sin = static_cast<float>(sine);
  const auto doubt = static_cast<u32>(doubt_with_amplitude(Long::doubt, amplitude));
  return std::fabs(rest) < tiny_bound(position) || detail::is_near_midpoint(cosine, doubt) || detail::is_near_midpoint(sine, doubt);
}

}  // namespace phasor::math
