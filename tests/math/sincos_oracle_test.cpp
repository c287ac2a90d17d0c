// SPDX-License-Identifier: Apache-2.0
// The two levels of exact cos and sin against MPFR: their error bounds, and that every float32 is the nearest.
#include "math/sincos.hpp"

#include <gtest/gtest.h>

#include <cstdio>
#include <vector>

#include "math/exact_oracle.hpp"

namespace phasor::math {
namespace {

using oracle::MpfrReal;
using oracle::SinCosOracle;

MpfrReal radians_of(const Phase& phase) { return oracle::radians_of(Step{{phase.limb[0], phase.limb[1], phase.limb[2]}, 0}); }

// ---- Level 1 ----

/// Largest error in ulps of a double over what `tiny` lets through. Derived in sincos.inl: 11 for Long, 681 for Short.
template <class Polynomials>
class Level1 {
 public:
  void at(Phase128 phase, double tiny, const MpfrReal& frequency, i64 position) {
    const auto r = sincos_lanes<Polynomials>(One<double>(), phase.high, phase.low, tiny);
    if (r.tiny) return;
    truth_.at(frequency, position);
    largest_ = std::fmax(largest_, std::fmax(truth_.cos_ulps(r.cos), truth_.sin_ulps(r.sin)));
  }
  double largest() const { return largest_; }

 private:
  SinCosOracle truth_;
  double largest_ = 0;
};

template <class Polynomials>
double largest_on_grid() {
  Level1<Polynomials> level;
  std::mt19937_64 random(21);
  for (u64 k = 0; k < 20000; ++k) {  // u from -1/2 to 1/2, each point in a random quadrant, with random low bits
    const u64 high = k * ((u64{1} << 62) / 20000) - (u64{1} << 61) + (random() << 62) + (random() >> 20);
    const Phase phase = {{0, random(), high}, 0};
    level.at({phase.limb[2], phase.limb[1]}, tiny_bound(0), radians_of(phase), 1);
  }
  return level.largest();
}

/// Ladders: the error of the 128-bit step joins in.
template <class Polynomials>
double largest_on_ladders() {
  Level1<Polynomials> level;
  std::mt19937_64 random(22);
  for (int k = 0; k < 100; ++k) {
    const oracle::LadderDraw drawn = oracle::draw_ladder(random);
    for (const MpfrReal& frequency : oracle::ladder(drawn.base, drawn.width)) {
      const Step step = oracle::step_of(frequency);
      const i64 m = oracle::draw_position(random);
      level.at(phase128_of(step, m), tiny_bound(m), frequency, m);
    }
  }
  for (const MpfrReal& frequency : oracle::ladder(5e5, 128)) {  // close to quarter turns, on both sides of the bound
    const Step step = oracle::step_of(frequency);
    for (const i64 m : oracle::nearest_to_quarter_turns(frequency)) level.at(phase128_of(step, m), tiny_bound(m), frequency, m);
  }
  return level.largest();
}

template <class Polynomials>
void expect_level_1(const char* name, double derived) {
  static_assert(Polynomials::doubt > 0);
  ASSERT_LE(derived, static_cast<double>(Polynomials::doubt));
  const double grid = largest_on_grid<Polynomials>();
  const double ladders = largest_on_ladders<Polynomials>();
  std::printf("%s: largest error %.2f ulps on a grid, %.2f on ladders; derived %.0f, doubt %d\n", name, grid, ladders, derived,
              static_cast<int>(Polynomials::doubt));
  EXPECT_LE(grid, derived);
  EXPECT_LE(ladders, derived);
}

TEST(Level1Oracle, long_polynomials_stay_within_the_derived_bound) { expect_level_1<Long>("Long", 11); }
TEST(Level1Oracle, short_polynomials_stay_within_the_derived_bound) { expect_level_1<Short>("Short", 681); }

/// A phase placed right where `tiny` begins: not tiny, and still within the bound.
TEST(Level1Oracle, holds_right_at_the_tiny_bound) {
  Level1<Long> level;
  for (u64 quadrant = 0; quadrant < 4; ++quadrant) {
    for (u64 k = 0; k < 200; ++k) {
      for (const u64 high : {(quadrant << 62) + 4096 + k, (quadrant << 62) - 4097 - k}) {
        const Phase phase = {{0, k * 0x9E3779B97F4A7C15, high}, 0};
        ASSERT_FALSE(sincos_lanes<Long>(One<double>(), phase.limb[2], phase.limb[1], tiny_bound_of_fraction()).tiny);
        level.at({phase.limb[2], phase.limb[1]}, tiny_bound_of_fraction(), radians_of(phase), 1);
      }
    }
  }
  std::printf("Long at the tiny bound: largest error %.2f ulps\n", level.largest());
  EXPECT_LE(level.largest(), 11);
}

/// Phases ever closer to a quarter turn, from either side, in any quadrant.
Phase draw_close_phase(std::mt19937_64& random) {
  Phase phase = {{random(), random(), random()}, 0};
  const int zeros = static_cast<int>(2 + random() % 120);
  if (zeros >= 64) phase.limb[1] >>= zeros - 64;
  phase.limb[2] = zeros >= 64 ? 0 : phase.limb[2] >> zeros;
  if (random() % 2 != 0) {
    for (u64& limb : phase.limb) limb = ~limb;
  }
  phase.limb[2] += random() << 62;
  return phase;
}

TEST(Level1Oracle, from_all_192_bits_is_nearest_wherever_it_is_not_in_doubt) {
  SinCosOracle truth;
  std::mt19937_64 random(29);
  int proven = 0;
  for (int k = 0; k < 30000; ++k) {
    const Phase phase = draw_close_phase(random);
    const double amplitude = k % 3 == 0 ? 1.2079441541679836 : 1;
    float cos = 0;
    float sin = 0;
    if (sincos_proven_near_zero(phase, amplitude, cos, sin)) continue;
    ++proven;
    truth.at(radians_of(phase), i64{1}, amplitude);
    EXPECT_EQ(cos, truth.cos_float()) << std::hex << phase.limb[2] << " " << phase.limb[1];
    EXPECT_EQ(sin, truth.sin_float()) << std::hex << phase.limb[2] << " " << phase.limb[1];
  }
  EXPECT_GT(proven, 29900);  // or it would be of no use
}

TEST(Level1Oracle, from_all_192_bits_is_in_doubt_where_the_phase_is_not_known) {
  float cos = 0;
  float sin = 0;
  EXPECT_FALSE(sincos_proven_near_zero({{0, 4, 0}, 0x1p-190}, 1, cos, sin));
  EXPECT_TRUE(sincos_proven_near_zero({{0, 4, 0}, 0x1p-170}, 1, cos, sin));  // 2^-123.3 radians, of which 2^-47 is not known
  EXPECT_TRUE(sincos_proven_near_zero({{1, 0, 0}, 0}, 1, cos, sin));         // a subnormal sine
}

// ---- Level 2 ----

class Level2 {
 public:
  void at(const Phase& phase) {
    const CosSin<DoubleDouble> r = sincos_double_double(phase);
    truth_.at(radians_of(phase), i64{1});
    worst(truth_.cos_error(r.cos.high, r.cos.low), r.cos.high);
    worst(truth_.sin_error(r.sin.high, r.sin.low), r.sin.high);
  }
  double largest() const { return largest_; }

 private:
  void worst(double error, double value) {
    if (error != 0) largest_ = std::fmax(largest_, error / std::fabs(value));
  }
  SinCosOracle truth_;
  double largest_ = 0;
};

TEST(Level2Oracle, is_within_2_to_minus_95_of_the_truth) {
  Level2 level;
  std::mt19937_64 random(23);
  for (int k = 0; k < 50000; ++k) level.at({{random(), random(), random()}, 0});
  for (int k = 0; k < 5000; ++k) level.at(draw_close_phase(random));
  std::printf("level 2: largest relative error 2^%.1f\n", std::log2(level.largest()));
  EXPECT_LT(level.largest(), 0x1p-95);
}

TEST(Level2Oracle, is_within_2_to_minus_95_at_the_worst_positions) {
  Level2 level;
  for (const MpfrReal& frequency : oracle::ladder(1e4, 128)) {
    const Step step = oracle::step_of(frequency);
    for (const i64 m : oracle::nearest_to_quarter_turns(frequency)) level.at(phase_of(step, m));
  }
  EXPECT_LT(level.largest(), 0x1p-95);
}

// ---- Both ----

/// math::sincos in float32 against the truth; counts what is not the nearest.
class Nearest {
 public:
  template <class Position>
  void at(const MpfrReal& frequency, Position position, double amplitude = 1) {
    const Step step = oracle::step_of(frequency);
    float cos = 0;
    float sin = 0;
    sincos(step, position, amplitude, cos, sin);
    truth_.at(frequency, position, amplitude);
    expect(cos, truth_.cos_float(), frequency, position);
    expect(sin, truth_.sin_float(), frequency, position);
  }
  template <class Position>
  void at64(const MpfrReal& frequency, Position position, double amplitude = 1) {
    const Step step = oracle::step_of(frequency);
    double cos = 0;
    double sin = 0;
    sincos(step, position, amplitude, cos, sin);
    truth_.at(frequency, position, amplitude);
    expect(cos, truth_.cos_double(), frequency, position);
    expect(sin, truth_.sin_double(), frequency, position);
  }

 private:
  /// Bits, so that the sign of zero counts.
  template <class T, class Position>
  void expect(T found, T truth, const MpfrReal& frequency, Position position) {
    EXPECT_TRUE(found == truth && std::signbit(found) == std::signbit(truth))
        << "found " << found << ", nearest " << truth << " at frequency " << frequency.nearest_double() << ", position " << position;
  }
  SinCosOracle truth_;
};

TEST(SinCosOracle, random_draws_over_all_of_int64_are_nearest) {
  Nearest nearest;
  std::mt19937_64 random(24);
  for (int k = 0; k < 1000; ++k) {
    const oracle::LadderDraw drawn = oracle::draw_ladder(random);
    const std::vector<MpfrReal> frequencies = oracle::ladder(drawn.base, drawn.width);
    for (int i = 0; i < 100; ++i) nearest.at(frequencies[random() % frequencies.size()], oracle::draw_position(random));
    for (int i = 0; i < 10; ++i) nearest.at64(frequencies[random() % frequencies.size()], oracle::draw_position(random));
    for (int i = 0; i < 20; ++i) nearest.at(frequencies[random() % frequencies.size()], oracle::draw_fraction(random));
  }
}

TEST(SinCosOracle, ends_of_int64_are_nearest) {
  Nearest nearest;
  for (const MpfrReal& frequency : oracle::ladder(5e5, 128)) {
    for (const i64 m :
         {std::numeric_limits<i64>::min(), std::numeric_limits<i64>::min() + 1, std::numeric_limits<i64>::max(), i64{-1}, i64{1}}) {
      nearest.at(frequency, m);
      nearest.at64(frequency, m);
    }
  }
}

TEST(SinCosOracle, convergents_of_pi_and_of_every_frequency_are_nearest) {
  Nearest nearest;
  // Numerators of the convergents of pi and of pi / 2: sin or cos of the position itself nearly vanishes.
  for (const i64 m : {11LL,
                      22LL,
                      333LL,
                      355LL,
                      103993LL,
                      208341LL,
                      1146408LL,
                      5419351LL,
                      80143857LL,
                      245850922LL,
                      411557987LL,
                      1068966896LL,
                      6167950454LL,
                      14885392687LL,
                      21053343141LL,
                      1783366216531LL,
                      3587785776203LL,
                      8958937768937LL,
                      139755218526789LL,
                      428224593349304LL,
                      6134899525417045LL,
                      66627445592888887LL,
                      430010946591069243LL,
                      2646693125139304345LL}) {
    nearest.at(MpfrReal(1), i64{m});
    nearest.at(MpfrReal(1), -i64{m});
    nearest.at64(MpfrReal(1), i64{m});
  }
  for (const MpfrReal& frequency : oracle::ladder(1e6, 96)) {
    for (const i64 m : oracle::nearest_to_quarter_turns(frequency)) nearest.at(frequency, m);
  }
}

TEST(SinCosOracle, given_frequencies_of_any_size_and_sign_are_nearest) {
  Nearest nearest;
  std::mt19937_64 random(25);
  const double two_pi = 0x1.921fb54442d18p2;  // DINOv3 turns by this double, which is not quite a turn
  for (const double frequency : {two_pi, -two_pi, -1.0, -0.37, 1e15, -1e15, 0x1.fffffffffffffp62, 1e-5, 1e-30, -1e-30, 1e-40}) {
    const MpfrReal exact(frequency);
    for (int k = 0; k < 300; ++k) nearest.at(exact, oracle::draw_position(random));
    for (const double x : {0.37, -0.37, 0.5, 0.25, 1.0 / 3, 1e-3, 123.456}) nearest.at(exact, x);
    for (int k = 0; k < 300; ++k) nearest.at(exact, oracle::draw_fraction(random));
  }
}

TEST(SinCosOracle, tiny_positions_are_nearest_down_to_subnormals_and_zero) {
  Nearest nearest;
  std::mt19937_64 random(26);
  for (const double frequency : {1.0, -1.0, 0.1, 6.28}) {
    for (const double x : {1e-300, -1e-300, 0x1p-1074, 1e-46, 1e-45, -1e-45, 3e-45, 1e-44, 1e-40, 1.1754943e-38, 1e-30})
      nearest.at(MpfrReal(frequency), x);
    for (int k = 0; k < 2000; ++k) {  // 2^-155 to 2^-55
      nearest.at(MpfrReal(frequency),
                 std::ldexp(1 + static_cast<double>(random() >> 11) * 0x1p-53, -55 - static_cast<int>(random() % 100)));
    }
  }
}

TEST(SinCosOracle, positions_that_are_midpoints_themselves_round_towards_zero) {
  // sin x is below x by x^2 / 6: of these, less than level 2 can see.
  Nearest nearest;
  std::mt19937_64 random(27);
  for (int k = 0; k < 2000; ++k) {
    const double midpoint = 1 + static_cast<double>(2 * (random() >> 41) + 1) * 0x1p-24;
    const double x = std::ldexp(midpoint, -40 - static_cast<int>(random() % 80));
    nearest.at(MpfrReal(1.0), x);
    nearest.at(MpfrReal(-2.0), -x);
    nearest.at(MpfrReal(1.0), x, 1.5);
  }
}

TEST(SinCosOracle, values_put_on_midpoints_by_the_amplitude_are_nearest) {
  Nearest nearest;
  SinCosOracle truth;
  std::mt19937_64 random(28);
  const std::vector<MpfrReal> frequencies = oracle::ladder(1e4, 64);
  int unproven = 0;
  for (int k = 0; k < 20000; ++k) {
    const MpfrReal& frequency = frequencies[random() % 32];
    const i64 m = oracle::draw_position(random) | 1;
    const double amplitude = oracle::amplitude_to_midpoint(frequency, m);
    nearest.at(frequency, m, amplitude);
    float cos = 0;
    float sin = 0;
    EXPECT_TRUE(sincos_proven<Long>(phase128_of(oracle::step_of(frequency), m), tiny_bound(m), amplitude, cos, sin));
    truth.at(frequency, m, amplitude);
    unproven += sin != truth.sin_float() ? 1 : 0;
  }
  EXPECT_GT(unproven, 2000);  // without the proof they would be wrong
}

TEST(SinCosOracle, an_amplitude_multiplies_before_the_one_rounding) {
  Nearest nearest;
  std::mt19937_64 random(27);
  const std::vector<MpfrReal> frequencies = oracle::ladder(1e4, 64);
  for (const double amplitude : {1.2079441541679836, 1.3688879454113936, 1.0857326446, 0.8, 2.0, 0x1p-64, 0x1.fp63}) {
    for (int k = 0; k < 3000; ++k) nearest.at(frequencies[random() % 32], oracle::draw_position(random), amplitude);
    for (int k = 0; k < 500; ++k) nearest.at64(frequencies[random() % 32], oracle::draw_position(random), amplitude);
    for (int k = 0; k < 500; ++k) nearest.at(frequencies[random() % 32], oracle::draw_fraction(random), amplitude);
    for (const i64 m : oracle::nearest_to_quarter_turns(frequencies[3])) nearest.at(frequencies[3], m, amplitude);
  }
}

}  // namespace
}  // namespace phasor::math
