// SPDX-License-Identifier: Apache-2.0
// Level 1 of exact cos and sin in float64 with fused steps, one lane: for GPUs whose float64 is half as fast as float32, on which it takes
// half of what pairs of float32 take (sincos_pairs.hpp). The formula, its bounds and its test are those of sincos.inl, which holds fused or
// not, so what is proven here is what is proven there.
#pragma once

#include <cmath>

#include "math/phase/phase.hpp"
#include "math/sincos.hpp"

namespace phasor::math {

/// The top 128 bits of a phase, and how near to a multiple of a quarter turn it is to be to be `tiny` (sincos.inl), in units of 2^-64
/// turns.
struct PhaseNear {
  Phase128 phase;
  u64 tiny;
};
/// At any position.
PHASOR_HD inline PhaseNear phase_near(u64 step_high, u64 step_low, i64 position) {
  const u64 magnitude = position < 0 ? 0U - static_cast<u64>(position) : static_cast<u64>(position);
  return {phase128_of({{0, step_low, step_high}, 0}, position), 4097 + (magnitude >> 13)};
}
/// At a position from 0 to 2^32 - 1: fewer products, and one bound for all.
PHASOR_HD inline PhaseNear phase_near(u64 step_high, u64 step_low, u32 position) {
  const u64 a = u64{static_cast<u32>(step_low)} * position;
  const u64 b = (step_low >> 32) * position + (a >> 32);
  return {{step_high * position + (b >> 32), b << 32 | static_cast<u32>(a)}, u64{1} << 20};
}

namespace detail {

/// Horner's rule for some numbers together: a constant of 64 bits takes two instructions of a GPU, here once for all of them.
template <class Terms, int i = 1, int count>
PHASOR_HD inline void add_fused_terms(const double (&z)[count], double (&sum)[count]) {
  if constexpr (i < Terms::count) {
    constexpr double term = Terms::at(i);
    for (int j = 0; j < count; ++j) sum[j] = fma(sum[j], z[j], term);
    add_fused_terms<Terms, i + 1>(z, sum);
  }
}
template <class Terms, int count>
PHASOR_HD inline void fused_polynomials(const double (&z)[count], double (&sum)[count]) {
  for (int j = 0; j < count; ++j) sum[j] = Terms::at(0);
  add_fused_terms<Terms>(z, sum);
}

/// near_midpoint: the 29 bits that float32 drops are in the low word.
PHASOR_HD inline bool is_near_midpoint(double y, u32 doubt) {
  const auto low = static_cast<u32>(bit_cast<u64>(y));
  return ((low + doubt - (u32{1} << 28)) & ((u32{1} << 29) - 1)) < 2 * doubt;
}
PHASOR_HD inline double with_sign_of(double x, u32 word) { return bit_cast<double>(bit_cast<u64>(x) ^ u64{word & 0x80000000U} << 32); }
/// A phase as its quadrant and what is left, in units of 2^-64 turns.
struct Quarter {
  u32 quadrant;  // its two highest bits
  i64 rest;
};
PHASOR_HD inline Quarter quarter_of(Phase128 phase) {
  const u64 turned = phase.high + (u64{1} << 61);  // an eighth of a turn further
  return {static_cast<u32>(turned >> 32), static_cast<i64>(turned << 2 >> 2) - (i64{1} << 61)};
}

}  // namespace detail

/// The nearest float32 to amplitude * cos and amplitude * sin of some phases. Returns bits of those with a rounding in doubt.
template <int count>
PHASOR_HD inline u32 sincos_by_doubles(const PhaseNear (&near)[count], double amplitude, float (&cos)[count], float (&sin)[count]) {
  detail::Quarter quarter[count];
  double u[count];
  double z[count];
  double s[count];
  double c[count];
  for (int j = 0; j < count; ++j) {
    quarter[j] = detail::quarter_of(near[j].phase);
    const double below = bit_cast<double>(near[j].phase.low >> 12 | u64{0x3ff} << 52) - 1.0;
    u[j] = (static_cast<double>(quarter[j].rest) + below) * 0x1p-62;
    z[j] = u[j] * u[j];
  }
  detail::fused_polynomials<LongSine>(z, s);
  detail::fused_polynomials<LongCosine>(z, c);
  const auto doubt = static_cast<u32>(doubt_with_amplitude(Long::doubt, amplitude));
  u32 doubts = 0;
  for (int j = 0; j < count; ++j) {
    const u32 quadrant = quarter[j].quadrant;
    const double sine_of_rest = u[j] * s[j];
    const double cosine_of_rest = fma(z[j], c[j], 1.0);
    const bool odd = (quadrant & 0x40000000U) != 0;
    const double cosine = detail::with_sign_of(odd ? sine_of_rest : cosine_of_rest, quadrant + 0x40000000U) * amplitude;
    const double sine = detail::with_sign_of(odd ? cosine_of_rest : sine_of_rest, quadrant) * amplitude;
    cos[j] = static_cast<float>(cosine);
    sin[j] = static_cast<float>(sine);
    const bool is_tiny = static_cast<u64>(quarter[j].rest) + near[j].tiny < 2 * near[j].tiny;
    if (is_tiny || detail::is_near_midpoint(cosine, doubt) || detail::is_near_midpoint(sine, doubt)) doubts |= 1U << j;
  }
  return doubts;
}

}  // namespace phasor::math
