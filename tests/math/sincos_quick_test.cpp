// SPDX-License-Identifier: Apache-2.0
// Level 0 of cos and sin: its polynomials stay within what the bounds are made of, and the float32 nearest to the truth lies in every
// interval, whatever the step, position and amplitude.
#include "math/sincos_quick.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numbers>
#include <random>

#include "math/sincos.hpp"

namespace phasor::math {
namespace {

struct Off {
  double cos = 0;
  double sin = 0;  // of itself
};
/// Errors of the polynomials at angles of 24 bits, in units of 2^-24: every `stride`-th float32 of the highest exponents, fewer of small
/// ones, where a sine is nearly u itself.
Off of_polynomials(int stride) {
  Off off;
  for (int exponent = -1; exponent >= -31; --exponent) {
    for (int i = 0; i <= 1 << 23; i += exponent < -16 ? 4096 * stride : exponent < -8 ? 64 * stride : stride) {
      const float u = std::ldexp(1 + static_cast<float>(i) * 0x1p-23F, exponent);
      const double x = static_cast<double>(u) * (std::numbers::pi / 2);
      const double cos = detail::quick_cosine(u * u);
      const double sin = detail::quick_sine(u, u * u);
      off.cos = std::max(off.cos, std::fabs(cos - std::cos(x)) * 0x1p24);
      off.sin = std::max(off.sin, std::fabs(sin - std::sin(x)) / std::sin(x) * 0x1p24);
    }
  }
  return off;
}

TEST(SinCosQuick, some_angles_are_off_by_what_its_bounds_are_made_of) {
  const Off off = of_polynomials(101);
  EXPECT_LT(off.cos, 1.5);
  EXPECT_LT(off.sin, 2.32);
  EXPECT_GT(off.cos, 1);
  EXPECT_GT(off.sin, 1);
}
TEST(SinCosQuick, every_angle_is_off_by_what_its_bounds_are_made_of) {
  const Off off = of_polynomials(1);
  EXPECT_LT(off.cos, 1.5);
  EXPECT_LT(off.sin, 2.32);
}

struct SeenQuick {
  int values = 0;
  double widest = 0;  // of an interval, in amplitudes
};
void expect_within(const Interval& interval, float value, double amplitude, SeenQuick& seen) {
  EXPECT_LE(interval.low, value);
  EXPECT_GE(interval.high, value);
  EXPECT_FALSE(value == 0 && (interval.low == 0 || interval.high == 0));  // or a zero's sign would seem proven
  seen.widest = std::max(seen.widest, (static_cast<double>(interval.high) - static_cast<double>(interval.low)) / std::fabs(amplitude));
  ++seen.values;
}
void see(const Step& step, i32 position, double amplitude, SeenQuick& seen) {
  const QuickSinCos quick = quick_sincos(quick_phase(quick_step(step.fraction[2]), position), quick_amplitude(amplitude));
  float cos = 0;
  float sin = 0;
  sincos_float(phase_of(step, i64{position}), std::fabs(amplitude), cos, sin);
  const float sign = amplitude < 0 ? -1.0F : 1.0F;
  expect_within(quick.cos, sign * cos, amplitude, seen);
  expect_within(quick.sin, sign * sin, amplitude, seen);
}

TEST(SinCosQuick, the_nearest_float32_lies_in_every_interval) {
  constexpr i32 kEdges[] = {0, 1, -1, 2, std::numeric_limits<i32>::max(), std::numeric_limits<i32>::min()};
  for (const double amplitude : {1.0, -1.0, 1.1386294361119891, -0.3, 1.9999999, 0x1p-64, 0x1p64, 3.0e5}) {
    std::mt19937_64 random(11);
    SeenQuick seen;
    for (int n = 0; n < 40000; ++n) {
      Step step = {{random(), random(), random()}, 0};
      step.fraction[2] >>= random() % 40;
      if (n % 50 == 0) step.fraction[2] |= 0xffffffff80000000U;
      if (n % 97 == 0) step = {{0, 0, u64{random() % 8} << 61}, 0};  // eighths of a turn
      const i32 position = n % 7 == 0 ? kEdges[random() % 6] : static_cast<i32>(static_cast<i64>(random()) >> (32 + random() % 31));
      see(step, position, amplitude, seen);
    }
    EXPECT_EQ(seen.values, 80000);
    EXPECT_LT(seen.widest, 0x1p-20);
  }
}

TEST(SinCosQuick, takes_positions_of_32_bits) {
  EXPECT_TRUE(is_quick_position(0));
  EXPECT_TRUE(is_quick_position(-(i64{1} << 31)));
  EXPECT_TRUE(is_quick_position((i64{1} << 31) - 1));
  EXPECT_FALSE(is_quick_position(i64{1} << 31));
  EXPECT_FALSE(is_quick_position(-(i64{1} << 31) - 1));
  EXPECT_FALSE(is_quick_position(i64{1} << 62));
}

}  // namespace
}  // namespace phasor::math
