// SPDX-License-Identifier: Apache-2.0
// Phases of steps whose multiples are known by hand.
#include "math/phase/phase.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <utility>

namespace phasor::math {
namespace {

constexpr i64 kLowest = std::numeric_limits<i64>::min();
constexpr u64 kQuarter = u64{1} << 62;
constexpr Step kQuarterTurn = {{0, 0, kQuarter}, 0};
constexpr Step kMinusQuarterTurn = {{0, 0, 3 * kQuarter}, -1};
constexpr Step kAwkward = {{0x0123456789abcdef, 0xfedcba9876543210, 0x28be60db9391054a}, 3};

TEST(Phase, of_whole_positions_wraps_at_every_turn) {
  for (const auto& [position, quarters] : {std::pair<i64, u64>{1, 1}, {3, 3}, {4, 0}, {-1, 3}, {-2, 2}, {kLowest, 0}, {kLowest + 1, 1}}) {
    EXPECT_EQ(phase_of(kQuarterTurn, position).limb[2], quarters * kQuarter) << position;
    EXPECT_EQ(phase128_of(kQuarterTurn, position).high, quarters * kQuarter) << position;
    EXPECT_EQ(phase_of(kMinusQuarterTurn, position).limb[2], (4 - quarters) % 4 * kQuarter) << position;
  }
}

TEST(Phase, of_fractional_positions_counts_whole_turns) {
  constexpr Step kTurn = {{0, 0, 0}, 1};
  constexpr Step kMinusTurn = {{0, 0, 0}, -1};
  EXPECT_EQ(phase_of(kTurn, 0.5).limb[2], 2 * kQuarter);
  EXPECT_EQ(phase_of(kTurn, 0.25).limb[2], kQuarter);
  EXPECT_EQ(phase_of(kTurn, -0.25).limb[2], 3 * kQuarter);
  EXPECT_EQ(phase_of(kMinusTurn, 0.25).limb[2], 3 * kQuarter);
  EXPECT_EQ(phase_of(kTurn, 1234567.25).limb[2], kQuarter);
  EXPECT_EQ(phase_of(kTurn, i64{7}).limb[2], 0U);
}

TEST(Phase, of_minus_a_position_is_the_complement) {
  std::mt19937_64 random(1);
  for (int k = 0; k < 10000; ++k) {
    const i64 m = static_cast<i64>(random() >> (1 + random() % 62));
    const Phase plus = phase_of(kAwkward, m);
    const Phase minus = phase_of(kAwkward, -m);
    u128 carry = 0;
    for (int i = 0; i < 3; ++i) {
      carry += static_cast<u128>(plus.limb[i]) + minus.limb[i];
      ASSERT_EQ(static_cast<u64>(carry), 0U) << m << " limb " << i;
      carry >>= 64;
    }
  }
}

TEST(Phase, of_a_whole_number_is_the_same_as_integer_and_as_float64) {
  std::mt19937_64 random(2);
  for (int k = 0; k < 10000; ++k) {
    const i64 m = (static_cast<i64>(random()) >> (11 + random() % 53)) * (i64{1} << random() % 10);
    const Phase whole = phase_of(kAwkward, m);
    const Phase fraction = phase_of(kAwkward, static_cast<double>(m));
    for (int i = 0; i < 3; ++i) ASSERT_EQ(whole.limb[i], fraction.limb[i]) << m << " limb " << i;
  }
}

TEST(Phase, top_bits_are_those_of_the_step_without_its_lowest_limb) {
  constexpr Step kTop = {{0, kAwkward.fraction[1], kAwkward.fraction[2]}, 3};
  std::mt19937_64 random(3);
  for (int k = 0; k < 10000; ++k) {
    const i64 m = static_cast<i64>(random()) >> (random() % 64);
    const Phase128 top = phase128_of(kAwkward, m);
    const Phase all = phase_of(kTop, m);
    ASSERT_EQ(top.high, all.limb[2]) << m;
    ASSERT_EQ(top.low, all.limb[1]) << m;
  }
}

TEST(Phase, exists_for_finite_positions_below_2_to_63) {
  EXPECT_TRUE(is_position(0.0));
  EXPECT_TRUE(is_position(-0x1.fffffffffffffp62));
  EXPECT_TRUE(is_position(std::numeric_limits<double>::denorm_min()));
  EXPECT_FALSE(is_position(0x1p63));
  EXPECT_FALSE(is_position(-0x1p63));
  EXPECT_FALSE(is_position(std::numeric_limits<double>::infinity()));
  EXPECT_FALSE(is_position(std::numeric_limits<double>::quiet_NaN()));
}

}  // namespace
}  // namespace phasor::math
