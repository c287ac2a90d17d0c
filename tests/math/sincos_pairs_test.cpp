// SPDX-License-Identifier: Apache-2.0
// Level 1 in pairs of float32 against level 2: what it proves is the nearest float32, and it seldom doubts.
#include "math/sincos_pairs.hpp"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace phasor::math {
namespace {

/// Steps of any size, from whole turns a position down to angles that 128 bits hardly hold.
Step any_step(std::mt19937_64& random, int most_zeros) {
  Step step = {{random(), random(), random()}, 0};
  step.fraction[2] >>= random() % static_cast<unsigned>(most_zeros);
  return step;
}
i64 any_position(std::mt19937_64& random) {
  const i64 m = static_cast<i64>(random()) >> (random() % 63);
  return m == 0 ? 1 : m;
}

struct Count {
  int pairs = 0;
  int in_doubt = 0;
};
/// Every value that is proven is level 2's.
Count expect_nearest(double amplitude, int pairs, int most_zeros) {
  std::mt19937_64 random(1);
  Count count;
  for (; count.pairs < pairs; ++count.pairs) {
    const Step step = any_step(random, most_zeros);
    const i64 m = any_position(random);
    float cos = 0;
    float sin = 0;
    if (sincos_by_pairs(phase128_of(step, m), m, pair_of(amplitude), cos, sin)) {
      ++count.in_doubt;
      continue;
    }
    float want_cos = 0;
    float want_sin = 0;
    sincos_float(phase_of(step, m), amplitude, want_cos, want_sin);
    EXPECT_EQ(bit_cast<u32>(cos), bit_cast<u32>(want_cos)) << m << " " << amplitude;
    EXPECT_EQ(bit_cast<u32>(sin), bit_cast<u32>(want_sin)) << m << " " << amplitude;
  }
  return count;
}

TEST(SinCosByPairs, is_the_nearest_float32_wherever_it_is_proven) {
  const Count count = expect_nearest(1, 400000, 24);
  EXPECT_LT(count.in_doubt, count.pairs / 10000);
  expect_nearest(1, 100000, 64);  // steps that hardly turn
}

TEST(SinCosByPairs, holds_with_an_amplitude) {
  for (const double amplitude : {1.1386294361119891, 0.5, 3.0e5, 1.0 / 3.0}) {
    const Count count = expect_nearest(amplitude, 50000, 24);
    EXPECT_LT(count.in_doubt, count.pairs / 5000) << amplitude;
  }
}

TEST(SinCosByPairs, doubts_what_its_bound_does_not_cover) {
  std::mt19937_64 random(3);
  float cos = 0;
  float sin = 0;
  for (int k = 0; k < 1000; ++k) {
    const Step step = any_step(random, 24);
    const i64 m = any_position(random);
    for (const double amplitude : {1e-30, 1e-300, 1e300})
      EXPECT_TRUE(sincos_by_pairs(phase128_of(step, m), m, pair_of(amplitude), cos, sin));
  }
  EXPECT_TRUE(sincos_by_pairs({0, 0}, 5, {1, 0}, cos, sin));                        // a bit below the 128 may be set
  EXPECT_TRUE(sincos_by_pairs({u64{1} << 63, 12345}, 5, {1, 0}, cos, sin));         // nearly half a turn
  EXPECT_TRUE(sincos_by_pairs({u64{1} << 40, 0}, i64{1} << 62, {1, 0}, cos, sin));  // a large position's error
  EXPECT_FALSE(sincos_by_pairs({u64{1} << 50, 0}, i64{1} << 20, {1, 0}, cos, sin));
}

/// An amplitude may put amplitude * sin or amplitude * cos on the midpoint of two float32, but for what a double loses: no pair can tell
/// which of the two is nearer, so each must be in doubt.
TEST(SinCosByPairs, doubts_what_lies_at_a_midpoint) {
  std::mt19937_64 random(4);
  const auto amplitude_to_midpoint = [](double value) {
    const float low = static_cast<float>(1.2 * value);
    return (0.5 * static_cast<double>(low) + 0.5 * static_cast<double>(std::nextafter(low, 2.0F))) / value;
  };
  for (int k = 0; k < 20000; ++k) {
    const Step step = any_step(random, 24);
    const i64 m = any_position(random);
    double exact_cos = 0;
    double exact_sin = 0;
    sincos_double(phase_of(step, m), 1, exact_cos, exact_sin);
    for (const double value : {exact_cos, exact_sin}) {
      float cos = 0;
      float sin = 0;
      ASSERT_TRUE(sincos_by_pairs(phase128_of(step, m), m, pair_of(amplitude_to_midpoint(value)), cos, sin)) << m << " " << value;
    }
  }
}

/// All quadrants and signs, at angles where the formula has every sign of rest.
TEST(SinCosByPairs, has_every_quadrant) {
  for (u64 eighth = 0; eighth < 16; ++eighth) {
    const Phase128 phase = {(eighth << 60) + (u64{1} << 57) + 987654321, 42};
    float cos = 0;
    float sin = 0;
    ASSERT_FALSE(sincos_by_pairs(phase, 1, {1, 0}, cos, sin)) << eighth;
    const double turns = static_cast<double>(phase.high) * 0x1p-64;
    EXPECT_NEAR(cos, std::cos(turns * 6.283185307179586), 1e-7) << eighth;
    EXPECT_NEAR(sin, std::sin(turns * 6.283185307179586), 1e-7) << eighth;
  }
}

}  // namespace
}  // namespace phasor::math
