// SPDX-License-Identifier: Apache-2.0
// Rows of every target against MPFR: random rows, the recurrence over consecutive rows, its error bound, and that it is used.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <string_view>
#include <vector>

#include "cpu/exact_rows.hpp"
#include "math/exact_oracle.hpp"
#include "math/sincos.hpp"
#include "phasor/phasor.hpp"

namespace phasor::test {
namespace {

using exact::Rows;
using oracle::MpfrReal;
using oracle::SinCosOracle;

/// A spec and the frequencies the oracle has for it.
struct Subject {
  RotarySpec spec;
  std::vector<MpfrReal> frequencies;
  double amplitude = 1;
};

Subject ladder_subject(double base, int width) { return {{.head_dim = width, .base = base}, oracle::ladder(base, width)}; }
Subject given_subject(const std::vector<double>& frequencies, double amplitude) {
  Subject s;
  s.spec = {.head_dim = 2 * static_cast<std::int64_t>(frequencies.size()), .scaling = GivenFrequencies{frequencies, amplitude}};
  s.frequencies.assign(frequencies.begin(), frequencies.end());
  s.amplitude = amplitude;
  return s;
}

/// The truth of the asked pairs, nearest in T.
template <class T>
T nearest_cos(const SinCosOracle& truth) {
  if constexpr (std::is_same_v<T, float>)
    return truth.cos_float();
  else
    return truth.cos_double();
}
template <class T>
T nearest_sin(const SinCosOracle& truth) {
  if constexpr (std::is_same_v<T, float>)
    return truth.sin_float();
  else
    return truth.sin_double();
}

/// Rows through the public function on every target; every `stride`-th value by MPFR, the others against the best target.
template <class T, class Position>
void expect_nearest(const Subject& subject, const std::vector<Position>& position, std::size_t stride = 1) {
  const Result<Rotary> rotary = Rotary::make(subject.spec);
  ASSERT_TRUE(rotary.ok()) << rotary.status().message();
  const std::int64_t tokens = static_cast<std::int64_t>(position.size());
  const std::int64_t pairs = rotary->rotary_width() / 2;
  const Extents shape = {1, tokens, 1, pairs};
  std::vector<Rows<T>> by_target;
  for (const std::string_view target : targets()) {
    ASSERT_TRUE(force_target(target).ok());
    by_target.emplace_back(tokens, pairs);
    const Status status = rotary->cos_sin(positions(position.data(), tokens), view(by_target.back().cos.data(), shape),
                                          view(by_target.back().sin.data(), shape));
    EXPECT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(by_target.back().cos, by_target.front().cos) << target;
    EXPECT_EQ(by_target.back().sin, by_target.front().sin) << target;
  }
  ASSERT_TRUE(force_target("").ok());
  SinCosOracle truth;
  int wrong = 0;
  for (std::size_t k = 0; k < position.size() * static_cast<std::size_t>(pairs); k += stride) {
    const std::size_t pair = k % static_cast<std::size_t>(pairs);
    truth.at(subject.frequencies[pair], position[k / static_cast<std::size_t>(pairs)], subject.amplitude);
    const bool bad = by_target.front().cos[k] != nearest_cos<T>(truth) || by_target.front().sin[k] != nearest_sin<T>(truth);
    if (bad && wrong++ < 5)
      ADD_FAILURE() << "pair " << pair << " position " << position[k / static_cast<std::size_t>(pairs)] << " is not the nearest";
  }
  EXPECT_EQ(wrong, 0);
}

std::vector<std::int64_t> run(std::int64_t first, std::int64_t count) {
  std::vector<std::int64_t> all;
  for (std::int64_t k = 0; k < count; ++k) all.push_back(first + k);
  return all;
}
template <class Position>
std::vector<Position> draws(Position (*draw)(std::mt19937_64&), std::size_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<Position> all(count);
  for (Position& p : all) p = draw(random);
  return all;
}

TEST(RowsOracle, random_rows_over_all_of_int64_are_nearest_on_every_target) {
  std::mt19937_64 random(31);
  for (std::uint64_t k = 0; k < 60; ++k) {
    const oracle::LadderDraw drawn = oracle::draw_ladder(random);
    expect_nearest<float>(ladder_subject(drawn.base, drawn.width), draws(oracle::draw_position, 40, k), 3);
  }
}

TEST(RowsOracle, consecutive_rows_are_nearest_on_every_target) {
  std::mt19937_64 random(32);
  for (int k = 0; k < 40; ++k) {
    const oracle::LadderDraw drawn = oracle::draw_ladder(random);
    expect_nearest<float>(ladder_subject(drawn.base, drawn.width), run(oracle::draw_position(random) / 2, 97), 7);
  }
}

TEST(RowsOracle, consecutive_rows_through_zero_and_at_the_ends_of_int64_are_nearest) {
  const Subject subject = ladder_subject(5e5, 128);
  expect_nearest<float>(subject, run(-50, 101));
  expect_nearest<float>(subject, run(std::numeric_limits<std::int64_t>::min(), 70), 3);
  expect_nearest<float>(subject, run(std::numeric_limits<std::int64_t>::max() - 69, 70), 3);
  std::vector<std::int64_t> wrapping = run(std::numeric_limits<std::int64_t>::max() - 9, 10);
  for (const std::int64_t m : run(std::numeric_limits<std::int64_t>::min(), 10)) wrapping.push_back(m);
  expect_nearest<float>(subject, wrapping);
}

/// NEON makes phases by words below 2^32 and otherwise above.
TEST(RowsOracle, rows_around_the_ends_of_words_are_nearest_in_any_order) {
  const Subject subject = ladder_subject(5e5, 128);
  for (const std::int64_t end : {std::int64_t{1} << 31, std::int64_t{1} << 32, -(std::int64_t{1} << 32)}) {
    const std::vector<std::int64_t> together = run(end - 20, 41);
    expect_nearest<float>(subject, together);
    expect_nearest<float>(subject, std::vector<std::int64_t>(together.rbegin(), together.rend()));
  }
  expect_nearest<float>(subject, run(std::int64_t{1} << 32, 41));
}

TEST(RowsOracle, a_slice_of_positions_0_to_65535_of_two_ladders_is_nearest) {
  for (const double base : {1e4, 5e5}) {
    std::vector<std::int64_t> position = run(0, 65536);
    expect_nearest<float>(ladder_subject(base, 128), position, 61);
    std::reverse(position.begin(), position.end());  // no two consecutive: level 1 (Short) instead of the recurrence
    expect_nearest<float>(ladder_subject(base, 128), position, 601);
  }
}

TEST(RowsOracle, runs_through_the_convergents_are_nearest) {
  const Subject subject = ladder_subject(1e4, 64);
  for (const std::size_t pair : {0U, 1U, 17U, 31U}) {
    for (const std::int64_t m : oracle::nearest_to_quarter_turns(subject.frequencies[pair])) {
      if (m > 20) expect_nearest<float>(subject, run(m - 20, 41), 5);
      expect_nearest<float>(subject, std::vector<std::int64_t>{m, -m});
    }
  }
}

TEST(RowsOracle, fractional_positions_are_nearest) {
  const double two_pi = 0x1.921fb54442d18p2;  // DINOv3; the double is not quite a turn
  const Subject dino = given_subject({two_pi, -two_pi, two_pi / 10, two_pi / 100, 1e15, -0.37, 1e-30, 1e-39}, 1);
  expect_nearest<float>(dino, std::vector<double>{0.37, -0.37, 0.5, 0.25, -0.75, 1.0 / 3, 1e-3, 123.456, 1e-300, 3e-45, 1e-40, -1e-38});
  expect_nearest<float>(dino, draws(oracle::draw_fraction, 3000, 33));
  expect_nearest<float>(ladder_subject(1e4, 128), draws(oracle::draw_fraction, 500, 34));
}

TEST(RowsOracle, given_frequencies_of_any_size_and_sign_are_nearest) {
  const Subject subject =
      given_subject({1, -1, 0.1, -0.37, 1e15, -1e15, 0x1.fp62, 1e-5, 1e-30, -1e-30, 1e-39, 3.25, -7.5, 1e-3, 0.5, -0.5, 2}, 1);
  expect_nearest<float>(subject, draws(oracle::draw_position, 1000, 35));
  expect_nearest<float>(subject, run(1000000, 500));
}

TEST(RowsOracle, an_amplitude_multiplies_before_the_one_rounding) {
  std::vector<double> frequencies;
  for (const MpfrReal& f : oracle::ladder(1e4, 64)) frequencies.push_back(f.nearest_double());
  for (const double amplitude : {1.2079441541679836, 1.3688879454113936, 0.8, 0x1p-64, 0x1.fp63}) {
    const Subject subject = given_subject(frequencies, amplitude);
    expect_nearest<float>(subject, run(4000, 200));
    expect_nearest<float>(subject, draws(oracle::draw_position, 200, 36));
    expect_nearest<double>(subject, draws(oracle::draw_position, 50, 37));
  }
}

/// Amplitudes that put one value of the row within a double ulp of a midpoint: here only level 2 can know.
TEST(RowsOracle, values_put_on_midpoints_by_the_amplitude_are_nearest) {
  std::vector<double> frequencies;
  for (const MpfrReal& f : oracle::ladder(1e4, 32)) frequencies.push_back(f.nearest_double());
  std::mt19937_64 random(41);
  for (int k = 0; k < 400; ++k) {
    const std::int64_t position = std::abs(oracle::draw_position(random) / 4) + 10;
    const double amplitude = oracle::amplitude_to_midpoint(MpfrReal(frequencies[random() % 16]), position);
    const Subject subject = given_subject(frequencies, amplitude);
    expect_nearest<float>(subject, run(position - 2, 5));
    expect_nearest<float>(subject, std::vector<std::int64_t>{position, -position});
    expect_nearest<float>(subject, std::vector<double>{static_cast<double>(position)});
  }
}

TEST(RowsOracle, float64_rows_are_nearest) {
  const Subject subject = ladder_subject(5e5, 128);
  expect_nearest<double>(subject, run(1000000, 200));
  expect_nearest<double>(subject, draws(oracle::draw_position, 300, 38));
  expect_nearest<double>(subject, draws(oracle::draw_fraction, 300, 39));
}

/// With a turn that is wrong on purpose, rows that come from the recurrence are wrong, and no others.
TEST(RowsOracle, the_recurrence_makes_consecutive_rows_and_no_others) {
  Result<plan::RotaryPlan> plan = plan::make_rotary_plan({.head_dim = 64, .base = 1e4});
  ASSERT_TRUE(plan.ok());
  plan::RotaryPlan spoiled = *plan;
  for (double& cos : spoiled.turn_cos) cos *= 0.5;
  const std::vector<std::int64_t> together = run(1000, 32);
  const std::vector<std::int64_t> apart(together.rbegin(), together.rend());
  for (const cpu::RotaryKernels* kernels : exact::available_kernels()) {
    Rows<float> sound(32, 32);
    Rows<float> wrong(32, 32);
    ASSERT_TRUE(exact::fill(*kernels, *plan, positions(together.data(), 32), sound).ok());
    ASSERT_TRUE(exact::fill(*kernels, spoiled, positions(together.data(), 32), wrong).ok());
    EXPECT_EQ(sound.cos == wrong.cos, std::string_view(kernels->target) == "scalar") << kernels->target;
    ASSERT_TRUE(exact::fill(*kernels, *plan, positions(apart.data(), 32), sound).ok());
    ASSERT_TRUE(exact::fill(*kernels, spoiled, positions(apart.data(), 32), wrong).ok());
    EXPECT_EQ(sound.cos, wrong.cos) << kernels->target;
    EXPECT_EQ(sound.sin, wrong.sin) << kernels->target;
  }
}

/// The recurrence as cpu/rotary/rows.inl has it, in one lane, fused or not: its largest distance from the truth over 32 rows.
template <class MulAdd>
double largest_recurrence_error(MulAdd mul_add) {
  SinCosOracle truth;
  std::mt19937_64 random(40);
  double largest = 0;
  for (int k = 0; k < 150; ++k) {
    const oracle::LadderDraw drawn = oracle::draw_ladder(random);
    const std::vector<MpfrReal> frequencies = oracle::ladder(drawn.base, drawn.width);
    for (int draw = 0; draw < 10; ++draw) {
      const MpfrReal& frequency = frequencies[random() % frequencies.size()];
      const math::Step step = oracle::step_of(frequency);
      const std::int64_t first = oracle::draw_position(random) / 2;
      double turn_cos = 1;
      double turn_sin = 0;
      math::sincos_double(math::phase_of(step, std::int64_t{1}), 1.0, turn_cos, turn_sin);
      const math::Phase128 phase = math::phase128_of(step, first);
      const auto seed = math::sincos_lanes<math::Long>(math::One<double>(), phase.high, phase.low, 0.0);
      double cos = seed.cos;
      double sin = seed.sin;
      for (std::int64_t r = 0; r < 32; ++r) {
        truth.at(frequency, first + r);
        largest = std::fmax(largest, std::fmax(truth.cos_error(cos, 0), truth.sin_error(sin, 0)));
        const double next = mul_add(-sin, turn_sin, cos * turn_cos);
        sin = mul_add(cos, turn_sin, sin * turn_cos);
        cos = next;
      }
    }
  }
  return largest;
}

TEST(RowsOracle, the_recurrence_stays_within_its_derived_error) {
  const double fused = largest_recurrence_error([](double a, double b, double c) { return std::fma(a, b, c); });
  const double plain = largest_recurrence_error([](double a, double b, double c) { return a * b + c; });
  std::printf("recurrence over 32 rows: largest error 2^%.2f fused, 2^%.2f not; derived 2^-46, bound used 2^-45\n", std::log2(fused),
              std::log2(plain));
  EXPECT_LT(fused, 0x1p-46);
  EXPECT_LT(plain, 0x1p-46);
}

}  // namespace
}  // namespace phasor::test
