// SPDX-License-Identifier: Apache-2.0
// Angles as the peers form them, in float32, and the correctly rounded cos and sin of a float32 angle, by the same two levels.
#pragma once

#include <cmath>

#include "math/phase/phase.hpp"
#include "math/sincos.hpp"

namespace phasor::math {

/// One radian in turns, 1 / (2 pi): a float32 angle is a fractional position at this step.
constexpr Step kRadian = {{0x36d8a5664f10e410, 0x7f09d5f47d4d3770, 0x28be60db9391054a}, 0};
/// The same in code for a device, which a variable of the host is no part of.
PHASOR_HD constexpr Step radian() { return kRadian; }

/// Below this |sin x - x| < |x|^3 / 6 < 2^-26 |x| and 1 - cos x < 2^-25: x and 1 are the nearest float32, next to a power of two as well.
constexpr float kSmallAngle = 0x1p-12F;
/// From here on, and for NaN, an angle has no phase (phase/phase.hpp, is_position): its cos and sin are NaN.
constexpr float kEndOfAngles = 0x1p63F;

PHASOR_HD inline bool is_small_angle(float x) { return std::fabs(x) < kSmallAngle; }
PHASOR_HD inline bool is_angle(float x) { return std::fabs(x) < kEndOfAngles; }

/// As tiny_bound, for phase128_of_angle: off by |x| 2^-128 turns (the step's) and one unit of 2^-128 (the shift's).
PHASOR_HD inline double tiny_bound_of_angle(float x) { return 4096.0 + std::fabs(static_cast<double>(x)) * 0x1p-13; }

/// The top 128 bits of the phase of a float32 angle, kSmallAngle <= |x| < kEndOfAngles.
PHASOR_HD inline Phase128 phase128_of_angle(float x) {
  const u32 bits = bit_cast<u32>(x);
  const u64 mantissa = (bits & 0x7fffffU) | 0x800000U;
  const int shift = 150 - static_cast<int>(bits >> 23 & 0xffU);  // |x| = mantissa 2^-shift, shift <= 35
  const bool negative = (bits >> 31) != 0;
  if (shift <= 0) {  // a whole number
    const i64 whole = static_cast<i64>(mantissa << -shift);
    return phase128_of(radian(), negative ? -whole : whole);
  }
  const u128 low = static_cast<u128>(kRadian.fraction[1]) * mantissa;
  const u128 high = static_cast<u128>(kRadian.fraction[2]) * mantissa + static_cast<u64>(low >> 64);
  u128 phase = high >> shift;  // below 2^88: the 64 bits of the phase and whole turns
  phase = phase << 64 | (static_cast<u64>(high) << (64 - shift) | static_cast<u64>(low) >> shift);
  if (negative) phase = ~phase + 1;
  return {static_cast<u64>(phase >> 64), static_cast<u64>(phase)};
}

/// The float32 nearest to cos and sin of a float32 angle. What every numerics profile's tables are made from.
PHASOR_HD inline void sincos_of_angle(float x, float& cos, float& sin) {
  if (is_small_angle(x)) {
    cos = 1;
    sin = x;
  } else if (!is_angle(x)) {
    cos = sin = bit_cast<float>(u32{0x7fc00000});
  } else if (sincos_proven<Long>(phase128_of_angle(x), tiny_bound_of_angle(x), 1.0, cos, sin)) {
    sincos_in_doubt(phase_of(radian(), static_cast<double>(x)), 1.0, cos, sin);
  }
}

/// Hugging Face and vLLM: the position, made ready, times the frequency. Each operation rounds to float32.
PHASOR_HD inline float ready_position(float position, float divisor, float factor) { return position / divisor * factor; }

/// ggml: `theta` is the position times a power of the ratio; between interpolated (mix 0) and kept (mix 1). Rounds after each operation.
struct GgmlPair {
  float divisor;  // "frequency factor"
  float scale;    // 1 / factor of linear and YaRN scaling
  float mix;      // negative: no YaRN, only the scale
};
/// One pair of ggml's running product: theta is the position times the ratio, `rung` times over.
struct RunningPair {
  i64 rung;
  float ratio;
  GgmlPair angle;
};
PHASOR_HD inline float ggml_angle(float theta, const GgmlPair& pair) {
  const float kept = theta / pair.divisor;
  const float interpolated = pair.scale * kept;
  if (pair.mix < 0) return interpolated;
  return interpolated * (1 - pair.mix) + kept * pair.mix;
}

}  // namespace phasor::math
