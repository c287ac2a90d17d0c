// SPDX-License-Identifier: Apache-2.0
// Points turned again and again, in pairs of float32, against level 2: they stay within their bound, what is proven is the nearest float32.
#include "math/phase/walk.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace phasor::math {
namespace {

constexpr int kSteps = 15;

double value_of(FloatPair x) { return static_cast<double>(x.high) + static_cast<double>(x.low); }

struct SeenWalk {
  int values = 0;
  int in_doubt = 0;
  double most = 0;  // error, of what its bound allows
};

/// One coordinate after some steps.
void see(FloatPair x, double exact, float want, float error, SeenWalk& seen) {
  ++seen.values;
  seen.most = std::max(seen.most, std::fabs(value_of(x) - exact) / static_cast<double>(error));
  if (is_rounded_within(x, error)) {
    EXPECT_EQ(x.high, want);
  } else {
    ++seen.in_doubt;
  }
}

SeenWalk walks(double amplitude, int count) {
  std::mt19937_64 random(7);
  SeenWalk seen;
  for (int n = 0; n < count; ++n) {
    Step step = {{random(), random(), random()}, 0};
    step.fraction[2] >>= random() % 16;
    const i64 first = static_cast<i64>(random()) >> (2 + random() % 60);
    const i64 apart = 1 + static_cast<i64>(random() >> (34 + random() % 29));
    WalkedPair point{};
    WalkedPair by{};
    if (!point_of(phase128_of(step, first), first, point) || !point_of(phase128_of(step, apart), apart, by)) continue;
    if (amplitude != 1) point = times(point, pair_of(amplitude));
    for (int i = 0; i <= kSteps; ++i, point = turned(point, by)) {
      const Phase phase = phase_of(step, first + i * apart);
      double cos = 0;
      double sin = 0;
      float cos_f32 = 0;
      float sin_f32 = 0;
      sincos_double(phase, amplitude, cos, sin);
      sincos_float(phase, amplitude, cos_f32, sin_f32);
      const float error = walk_error(i) * static_cast<float>(amplitude);
      see(point.cos, cos, cos_f32, error, seen);
      see(point.sin, sin, sin_f32, error, seen);
    }
  }
  return seen;
}

TEST(SinCosWalk, stays_within_its_bound_and_proves_only_the_nearest_float32) {
  for (const double amplitude : {1.0, 1.1386294361119891, 0x1p-60, 3.0e5}) {
    const SeenWalk seen = walks(amplitude, 8000);
    EXPECT_GT(seen.values, 200000);
    EXPECT_LT(seen.in_doubt, seen.values / 300) << amplitude;
    EXPECT_LT(seen.most, 1) << amplitude;
    EXPECT_GT(seen.most, 0.01) << amplitude;  // or nothing was measured
  }
}

TEST(SinCosWalk, doubts_both_sides_of_a_power_of_two) {
  EXPECT_TRUE(is_rounded_within({1, 0}, 0x1p-26F));
  EXPECT_FALSE(is_rounded_within({1, 0}, 0x1.8p-25F));       // below 1 the next float32 is half as far
  EXPECT_FALSE(is_rounded_within({1, 0x1p-26F}, 0x1p-24F));  // above
  EXPECT_FALSE(is_rounded_within({0, 0}, walk_error(0)));
}

TEST(SinCosWalk, has_no_point_at_a_quarter_turn) {
  WalkedPair point{};
  EXPECT_FALSE(point_of({0, 0}, 5, point));
  EXPECT_FALSE(point_of({u64{1} << 62, 12345}, 5, point));
  EXPECT_TRUE(point_of({u64{1} << 50, 0}, 5, point));
}

}  // namespace
}  // namespace phasor::math
