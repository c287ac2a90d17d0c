// SPDX-License-Identifier: Apache-2.0
// The few formulas of positions: patch centres, time ids of videos, lengths of encoded audio, temperatures.
#pragma once

#include "math/sincos.hpp"

namespace phasor::math {

/// Centre of patch i of n on [-1, 1]: one division of two integers, so the float64 nearest to it (n < 2^52).
inline double patch_centre(i64 i, i64 n) { return static_cast<double>(2 * i + 1 - n) / static_cast<double>(n); }

/// a / b rounded down, b > 0.
inline i64 floor_divide(i64 a, i64 b) { return a / b - (a % b < 0 ? 1 : 0); }

/// Id of a frame, in float32 as transformers has it: frame * interval.
inline float frame_id(i64 frame, float interval) { return static_cast<float>(frame) * interval; }
/// Omni multiplies twice.
inline float frame_id(i64 frame, float seconds, float ids_a_second) { return static_cast<float>(frame) * seconds * ids_a_second; }

/// Tokens that Qwen2.5-Omni's encoder makes of so many features.
inline i64 qwen2_5_audio_tokens(i64 features) { return floor_divide(floor_divide(features - 1, 2) + 1 - 2, 2) + 1; }
/// And Qwen3-Omni's: 13 of every whole chunk of two windows.
inline i64 qwen3_audio_tokens(i64 features, i64 window) {
  const i64 chunk = 2 * window;
  const i64 once = floor_divide(features % chunk - 1, 2) + 1;
  return floor_divide(floor_divide(once - 1, 2) + 1 - 1, 2) + 1 + features / chunk * 13;
}

/// The quotient to 2^-100 of itself.
PHASOR_HD inline DoubleDouble divide(DoubleDouble a, DoubleDouble b) {
  const double q = a.high / b.high;
  const DoubleDouble rest = a + -(b * DoubleDouble{q, 0});
  const double q2 = rest.high / b.high;
  const DoubleDouble rest2 = rest + -(b * DoubleDouble{q2, 0});
  return quick_two_sum(q, q2) + DoubleDouble{rest2.high / b.high, 0};
}

/// 1 / n to 2^-104: the remainder of the quotient is exact.
PHASOR_HD inline DoubleDouble reciprocal(double n) {
  const double q = 1 / n;
  const DoubleDouble product = two_product(q, n);
  return quick_two_sum(q, ((1 - product.high) - product.low) / n);
}

/// An integer, exactly.
PHASOR_HD inline DoubleDouble exact(u64 n) { return two_sum(static_cast<double>(n >> 32) * 0x1p32, static_cast<double>(n & 0xffffffffU)); }

/// ln(x), x >= 1, relative error below 2^-96: x = 2^k m with m in [0.70, 1.42], ln(m) = 2 artanh((m - 1) / (m + 1)).
PHASOR_HD inline DoubleDouble natural_log(DoubleDouble x) {
  int k = 0;
  const double fraction = std::frexp(x.high, &k);  // in [1/2, 1)
  if (fraction < 0x1.6ap-1) --k;
  const DoubleDouble m = {std::ldexp(x.high, -k), std::ldexp(x.low, -k)};
  const DoubleDouble s = divide(m + DoubleDouble{-1, 0}, m + DoubleDouble{1, 0});  // |s| < 0.172
  const DoubleDouble z = s * s;
  DoubleDouble sum = {0, 0};
  for (int i = 41; i >= 1; i -= 2) sum = sum * z + reciprocal(i);  // z^21 < 2^-106
  constexpr DoubleDouble kLn2 = {0x1.62e42fefa39efp-1, 0x1.abc9e3b39803fp-56};
  return kLn2 * DoubleDouble{static_cast<double>(k), 0} + DoubleDouble{2, 0} * (s * sum);
}

/// max(1, ln(p + 1) / ln(length)) of p + 1 > length; length >= 2.
PHASOR_HD inline DoubleDouble log_n_temperature(DoubleDouble p_and_1, i64 length) {
  return divide(natural_log(p_and_1), natural_log(exact(static_cast<u64>(length))));
}

/// 1 + scale ln(1 + n), n = floor((p + shift) / length) >= 0.
PHASOR_HD inline DoubleDouble floored_log_temperature(double scale, i64 n) {
  if (n == 0) return {1, 0};
  return DoubleDouble{1, 0} + DoubleDouble{scale, 0} * natural_log(exact(static_cast<u64>(n) + 1));
}

}  // namespace phasor::math
