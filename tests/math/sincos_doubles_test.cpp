// SPDX-License-Identifier: Apache-2.0
// Level 1 in float64 for GPUs: what it proves is what the definition gives, and it leaves few.
#include "math/sincos_doubles.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <random>

namespace phasor::math {
namespace {

constexpr int kTogether = 4;

struct Seen {
  int values = 0;
  int in_doubt = 0;
};
/// Some positions of one step together.
void see(const Step& step, const i64 (&position)[kTogether], double amplitude, Seen& seen) {
  PhaseNear near[kTogether];
  for (int j = 0; j < kTogether; ++j) near[j] = phase_near(step.fraction[2], step.fraction[1], position[j]);
  float cos[kTogether];
  float sin[kTogether];
  const u32 doubts = sincos_by_doubles(near, amplitude, cos, sin);
  for (int j = 0; j < kTogether; ++j) {
    ++seen.values;
    if ((doubts >> j & 1) != 0) {
      ++seen.in_doubt;
      continue;
    }
    float want_cos = 0;
    float want_sin = 0;
    sincos(step, position[j], amplitude, want_cos, want_sin);
    EXPECT_EQ(bit_cast<u32>(cos[j]), bit_cast<u32>(want_cos));
    EXPECT_EQ(bit_cast<u32>(sin[j]), bit_cast<u32>(want_sin));
  }
}

TEST(SinCosDoubles, proves_what_the_definition_gives) {
  for (const double amplitude : {1.0, 1.1386294361119891, 0x1p-60, 3.0e5}) {
    std::mt19937_64 random(5);
    Seen seen;
    for (int n = 0; n < 50000; ++n) {
      Step step = {{random(), random(), random()}, 0};
      step.fraction[2] >>= random() % 24;
      i64 position[kTogether];
      for (i64& p : position) p = static_cast<i64>(random()) >> (1 + random() % 63);
      see(step, position, amplitude, seen);
    }
    EXPECT_EQ(seen.values, 4 * 50000);
    EXPECT_LT(seen.in_doubt, seen.values / 20) << amplitude;  // most are 0 and -1, which do not turn far
  }
}

TEST(SinCosDoubles, leaves_few_at_positions_of_sequences) {
  Seen seen;
  const Step step = {{1, 0x123456789abcdef, 0x00f1e2d3c4b5a697}, 0};
  for (i64 first = 1; first < 400000; first += kTogether) see(step, {first, first + 1, first + 2, first + 3}, 1, seen);
  EXPECT_LT(seen.in_doubt, seen.values / 50000);
}

TEST(SinCosDoubles, leaves_angles_that_are_too_small) {
  Seen seen;
  see({{0, 0, 0}, 0}, {0, 1, -1, 1000}, 1, seen);
  see({{0, 0, u64{1} << 62}, 0}, {1, 2, 3, 4}, 1, seen);
  see({{0, 0, 1}, 0}, {1, -1, 4000, -4000}, 1, seen);
  EXPECT_EQ(seen.in_doubt, 12);
}

/// Found by trying 50 million: a cosine or sine within 32 units of 2^-53 of the middle between two float32.
TEST(SinCosDoubles, leaves_values_in_the_middle_of_two) {
  struct Found {
    u64 low;
    u64 high;
    i64 position;
  };
  for (const Found& one : {Found{0xc83ff92ffe9d14df, 0xa8a96fd5683, 34452},
                           {0x28614ac26155f624, 0x3bfa7fd53466d1fa, 25989},
                           {0x259cd1a7784d2757, 0x1e39de3cff569, 76766},
                           {0x0e227ca09ad89115, 0x1cde358adb2dc7d, 63874},
                           {0xeb1c179d8641d635, 0x877697cac89781e, 28983},
                           {0x486e72d8a739d32c, 0xf46281184c7ca0a3, 26430}}) {
    Seen seen;
    see({{0, one.low, one.high}, 0}, {one.position - 1, one.position, one.position + 1, one.position + 2}, 1, seen);
    EXPECT_EQ(seen.in_doubt, 1) << one.position;
  }
}

TEST(SinCosDoubles, phases_of_short_positions_are_those_of_all) {
  std::mt19937_64 random(9);
  for (int n = 0; n < 20000; ++n) {
    const u64 high = random();
    const u64 low = n % 10 == 0 ? ~u64{0} : random();
    const u32 position = n % 7 == 0 ? std::numeric_limits<u32>::max() : static_cast<u32>(random() >> (random() % 32 + 32));
    const PhaseNear one = phase_near(high, low, position);
    const PhaseNear other = phase_near(high, low, i64{position});
    EXPECT_EQ(one.phase.high, other.phase.high);
    EXPECT_EQ(one.phase.low, other.phase.low);
    EXPECT_GE(one.tiny, other.tiny);
  }
}

}  // namespace
}  // namespace phasor::math
