// SPDX-License-Identifier: Apache-2.0
// The proofs of rounding on numbers made for them: midpoints, neighbours, subnormals, bounds.
#include "math/sincos.hpp"

#include <gtest/gtest.h>

#include <limits>

namespace phasor::math {
namespace {

bool near(double y, u64 doubt) { return near_midpoint(One<double>(), y, doubt); }
double ulps_from(double y, i64 ulps) { return bit_cast<double>(bit_cast<u64>(y) + static_cast<u64>(ulps)); }

TEST(NearMidpoint, holds_within_the_doubt_of_a_midpoint_and_nowhere_else) {
  for (const u64 doubt : {Long::doubt, Short::doubt, 2 * Short::doubt + 2}) {
    const i64 d = static_cast<i64>(doubt);
    for (const double midpoint : {0x1.000001p-1, 0x1.fffffdp-1, -0x1.555555p-20, 0x1.000003p-49, 0x1.ffffffp-1}) {
      EXPECT_TRUE(near(midpoint, doubt));
      EXPECT_TRUE(near(ulps_from(midpoint, d - 1), doubt));
      EXPECT_TRUE(near(ulps_from(midpoint, -d), doubt));
      EXPECT_FALSE(near(ulps_from(midpoint, d + 1), doubt));
      EXPECT_FALSE(near(ulps_from(midpoint, -d - 1), doubt));
    }
    for (const double exact : {1.0, 0.5, 0x1.000002p-3, -0x1.fffffep-1}) {
      EXPECT_FALSE(near(exact, doubt));
      EXPECT_FALSE(near(ulps_from(exact, d), doubt));
      EXPECT_FALSE(near(ulps_from(exact, -d), doubt));
    }
  }
}

TEST(NearMidpoint, doubles_its_doubt_for_an_amplitude) {
  EXPECT_EQ(doubt_with_amplitude(Long::doubt, 1.0), Long::doubt);
  EXPECT_EQ(doubt_with_amplitude(Long::doubt, 1.25), 2 * Long::doubt + 2);
}

struct Rounding {
  DoubleDouble from;
  float to;
  bool undecided;
};

TEST(RoundToFloat, lets_the_low_part_decide_at_midpoints) {
  const Rounding cases[] = {
      {{0x1.000001p0, 0x1p-60}, 0x1.000002p0F, false},     // between 1 and its successor
      {{0x1.000001p0, -0x1p-60}, 1.0F, false},             //
      {{0x1.000003p0, 0x1p-60}, 0x1.000004p0F, false},     // the even neighbour above
      {{0x1.000003p0, -0x1p-60}, 0x1.000002p0F, false},    // the odd one below
      {{-0x1.000001p0, -0x1p-60}, -0x1.000002p0F, false},  //
      {{-0x1.000001p0, 0x1p-60}, -1.0F, false},            //
      {{0x1.ffffffp-1, 0x1p-60}, 1.0F, false},             // up to a power of two
      {{0x1.ffffffp-1, -0x1p-60}, 0x1.fffffep-1F, false},  //
      {{1.0, 0x1p-60}, 1.0F, false},                       // no midpoint near
      {{1.0, -0x1p-60}, 1.0F, false},                      //
      {{0x1.000001p0, 0x1p-100}, 0x1.000002p0F, true},     // within 2^-95
      {{0x1.000001p0, 0.0}, 1.0F, true},
  };
  for (const Rounding& c : cases) {
    const Rounded rounded = round_to_float(c.from, 0);
    EXPECT_EQ(rounded.nearest, c.to) << c.from.high << " + " << c.from.low;
    EXPECT_EQ(rounded.undecided, c.undecided) << c.from.high << " + " << c.from.low;
  }
}

TEST(RoundToFloat, knows_the_spacing_of_subnormals) {
  const Rounding cases[] = {
      {{0x1.8p-149, 0x1p-210}, 0x1p-148F, false},               // between 1 and 2 units of 2^-149
      {{0x1.8p-149, -0x1p-210}, 0x1p-149F, false},              //
      {{0x1.4p-147, 0x1p-210}, 0x1.4p-147F, false},             // 5 units: a number
      {{0x1.6p-147, -0x1p-210}, 0x1.4p-147F, false},            // between 5 and 6
      {{0x1.6p-147, 0x1p-210}, 0x1.8p-147F, false},             //
      {{0x1.fffffep-127, -0x1p-190}, 0x1.fffffcp-127F, false},  // the midpoint below the smallest normal
      {{0x1.fffffep-127, 0x1p-190}, 0x1p-126F, false},          //
      {{-0x1.8p-149, -0x1p-210}, -0x1p-148F, false},
      {{0x1p-160, 0.0}, 0.0F, false},
      {{0x1p-150, 0x1p-210}, 0x1p-149F, false},  // between 0 and the smallest
      {{0x1p-150, -0x1p-210}, 0.0F, false},
      {{-0x1p-150, -0x1p-210}, -0x1p-149F, false},
  };
  for (const Rounding& c : cases) {
    const Rounded rounded = round_to_float(c.from, 0);
    EXPECT_EQ(rounded.nearest, c.to) << c.from.high << " + " << c.from.low;
    EXPECT_EQ(rounded.undecided, c.undecided) << c.from.high << " + " << c.from.low;
  }
}

TEST(RoundToFloat, adds_the_error_of_the_phase) {
  EXPECT_FALSE(round_to_float({0x1.000001p0, 0x1p-60}, 0x1p-61).undecided);
  EXPECT_TRUE(round_to_float({0x1.000001p0, 0x1p-60}, 0x1p-59).undecided);
}

TEST(TinyBound, grows_with_the_position_and_is_even) {
  EXPECT_EQ(tiny_bound(0), 4096.0);
  EXPECT_EQ(tiny_bound(i64{1} << 25), 8192.0);
  EXPECT_EQ(tiny_bound(-(i64{1} << 25)), 8192.0);
  EXPECT_EQ(tiny_bound(std::numeric_limits<i64>::min()), 4096.0 + 0x1p50);
}

TEST(TinyBound, sends_what_is_closer_to_a_quarter_turn_to_level_2) {
  for (const u64 quadrant : {u64{0}, u64{1}, u64{2}, u64{3}}) {
    for (const u64 distance : {u64{0}, u64{1}, u64{4095}}) {
      EXPECT_TRUE(sincos_lanes<Long>(One<double>(), (quadrant << 62) + distance, u64{0}, 4096.0).tiny) << quadrant << " " << distance;
      EXPECT_TRUE(sincos_lanes<Short>(One<double>(), (quadrant << 62) - distance, u64{0}, 4096.0).tiny) << quadrant << " " << distance;
    }
    EXPECT_FALSE(sincos_lanes<Long>(One<double>(), (quadrant << 62) + 4096, u64{0}, 4096.0).tiny) << quadrant;
    EXPECT_FALSE(sincos_lanes<Short>(One<double>(), (quadrant << 62) - 4096, u64{0}, 4096.0).tiny) << quadrant;
  }
}

TEST(SinCos, is_exact_at_quarter_turns) {
  constexpr Step kQuarterTurn = {{0, 0, u64{1} << 62}, 0};
  const float expected[4][2] = {{1, 0}, {0, 1}, {-1, 0}, {0, -1}};
  for (i64 m = -8; m < 8; ++m) {
    for (const double amplitude : {1.0, 1.25}) {
      float cos = 9;
      float sin = 9;
      sincos(kQuarterTurn, m, amplitude, cos, sin);
      EXPECT_EQ(cos, static_cast<float>(amplitude) * expected[m & 3][0]) << m;
      EXPECT_EQ(sin, static_cast<float>(amplitude) * expected[m & 3][1]) << m;
      double cos64 = 9;
      double sin64 = 9;
      sincos(kQuarterTurn, static_cast<double>(m), amplitude, cos64, sin64);
      EXPECT_EQ(cos64, amplitude * static_cast<double>(expected[m & 3][0])) << m;
      EXPECT_EQ(sin64, amplitude * static_cast<double>(expected[m & 3][1])) << m;
    }
  }
}

TEST(SinCos, is_nan_where_there_is_no_phase) {
  constexpr Step kStep = {{1, 2, 3}, 0};
  for (const double x : {std::numeric_limits<double>::infinity(), -0x1p63, std::numeric_limits<double>::quiet_NaN()}) {
    float cos = 0;
    float sin = 0;
    double cos64 = 0;
    double sin64 = 0;
    sincos(kStep, x, 1.0, cos, sin);
    sincos(kStep, x, 1.0, cos64, sin64);
    EXPECT_TRUE(std::isnan(cos) && std::isnan(sin) && std::isnan(cos64) && std::isnan(sin64)) << x;
  }
}

}  // namespace
}  // namespace phasor::math
