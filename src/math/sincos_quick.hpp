// SPDX-License-Identifier: Apache-2.0
// Level 0 of cos and sin, for results that keep fewer bits than float32: plain float32 from the 32 highest bits of a phase. It does not
// say what the nearest float32 is, only two float32 that it lies between. Where both ends end in the same number of 16 bits, so does
// whatever lies between them; elsewhere level 1 is asked.
#pragma once

#include <cmath>

#include "math/phase/phase.hpp"
#include "math/portable.hpp"

namespace phasor::math {

using i32 = std::int32_t;

/// The 64 highest bits of a step, high 2^32 + low with a signed low word: then the product with a signed position needs no correction.
struct QuickStep {
  u32 high;
  i32 low;
};
PHASOR_HD inline QuickStep quick_step(u64 highest_limb) {
  const auto low = static_cast<u32>(highest_limb);
  return {static_cast<u32>(highest_limb >> 32) + (low >> 31), static_cast<i32>(low)};
}
PHASOR_HD inline bool is_quick_position(i64 position) { return position == static_cast<i32>(position); }

/// The 32 highest bits of a phase, 1.5 units off at most: what is cut off lies between 0 and 1 (the product) and within half a unit (bits
/// of the step, |position| 2^-64 turns).
PHASOR_HD inline u32 quick_phase(QuickStep step, i32 position) {
#ifdef __CUDA_ARCH__
  const auto carried = static_cast<u32>(__mulhi(step.low, position));
#else
  const auto carried = static_cast<u32>((i64{step.low} * position) >> 32);
#endif
  return step.high * static_cast<u32>(position) + carried;
}

struct Interval {
  float low;
  float high;
};
struct QuickSinCos {
  Interval cos;
  Interval sin;
};
/// What values are multiplied by, as float32, and what then bounds their errors.
struct QuickAmplitude {
  float value;
  float of_cosine;    // its error
  float of_sine;      // that of a sine, as a part of it
  float beside_sine;  // and what is added to that
};

// Errors with u = 2^-24, of values without amplitude. What the polynomials and their roundings make of an angle of 24 bits, by trying every
// one down to 2^-8 and some of all that are smaller (tests/math/sincos_quick_test.cpp): 1.5 u of a cosine, 2.32 u of itself of a sine. 32
// bits of phase as 24: 0.79 u of a cosine, 1 u of itself of a sine (x cot x <= 1). The phase: 1.5 2^-32 turns are 2^-28.7. The amplitude as
// float32 and the rounding of an end: 1 u of itself each. Sums: 4.34 u of a cosine, 5.32 u of itself of a sine and 2^-28.7. The bounds: 5
// u, 6 u and 2^-28.
PHASOR_HD inline QuickAmplitude quick_amplitude(double amplitude) {
  const auto value = static_cast<float>(amplitude);
  return {value, fabsf(value) * 0x1.4p-22F, fabsf(value) * 0x1.8p-22F, fabsf(value) * 0x1p-28F};
}

namespace detail {

// sin = u S(u^2), cos = C(u^2), u in quarter turns, |u| <= 1: minimax of float32 coefficients, 2^-26.9 and 2^-29.7 off.
PHASOR_HD inline float quick_sine(float u, float z) {
  float sum = fmaf(0x1.3f9254p-13F, z, -0x1.3270d2p-8F);
  sum = fmaf(sum, z, 0x1.466a86p-4F);
  sum = fmaf(sum, z, -0x1.4abbd4p-1F);
  return u * fmaf(sum, z, 0x1.921fb6p+0F);
}
PHASOR_HD inline float quick_cosine(float z) {
  float sum = fmaf(-0x1.889edap-16F, z, 0x1.e0a1dcp-11F);
  sum = fmaf(sum, z, -0x1.55cd26p-6F);
  sum = fmaf(sum, z, 0x1.03c1d4p-2F);
  sum = fmaf(sum, z, -0x1.3bd3ccp+0F);
  return fmaf(sum, z, 1.0F);
}

}  // namespace detail

/// amplitude * cos and amplitude * sin of a phase. The float32 nearest to either lies in its interval. A sine
/// of 0 lies inside of its own.
PHASOR_HD inline QuickSinCos quick_sincos(u32 phase, const QuickAmplitude& amplitude) {
  const u32 odd = (phase + 0x40000000U) & 0x80000000U;                          // whether the nearest half turn is one
  const float u = static_cast<float>(static_cast<i32>(phase << 1)) * 0x1p-31F;  // from it, in quarter turns
  const float z = u * u;
  const float factor = bit_cast<float>(bit_cast<u32>(amplitude.value) ^ odd);
  const float sin = detail::quick_sine(u, z);
  const float cos = detail::quick_cosine(z);
  const float error = fmaf(fabsf(sin), amplitude.of_sine, amplitude.beside_sine);
  return {{fmaf(cos, factor, -amplitude.of_cosine), fmaf(cos, factor, amplitude.of_cosine)},
          {fmaf(sin, factor, -error), fmaf(sin, factor, error)}};
}

}  // namespace phasor::math
