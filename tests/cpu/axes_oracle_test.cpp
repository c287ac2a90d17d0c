// SPDX-License-Identifier: Apache-2.0
// Rows of several axes on every target against MPFR: runs in which axes advance or rest, and sums along directions, at any position.
#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <string_view>
#include <vector>

#include "cpu/exact_rows.hpp"
#include "math/exact_oracle.hpp"
#include "phasor/phasor.hpp"

namespace phasor::test {
namespace {

using exact::Rows;
using oracle::MpfrReal;
using oracle::SinCosOracle;

/// A spec, and the frequency of each pair along each axis.
struct Subject {
  RotarySpec spec;
  std::vector<std::vector<MpfrReal>> frequencies;  // (axes, pairs)
  double amplitude = 1;
};

/// Pair i is of axis i mod n.
Subject by_axis(std::size_t axes, std::int64_t width, double amplitude = 1) {
  Subject s;
  const std::vector<MpfrReal> ladder = oracle::ladder(1e4, static_cast<int>(width));
  GivenFactors factors{std::vector<double>(ladder.size(), 1), amplitude};
  std::vector<std::uint8_t> axis_of_pair;
  s.frequencies.assign(axes, std::vector<MpfrReal>(ladder.size(), MpfrReal(0)));
  for (std::size_t i = 0; i < ladder.size(); ++i) {
    axis_of_pair.push_back(static_cast<std::uint8_t>(i % axes));
    s.frequencies[i % axes][i] = ladder[i];
  }
  s.spec = {.head_dim = width, .scaling = factors, .axes = {.order = AxisOrder::given, .axis_of_pair = axis_of_pair}};
  s.amplitude = amplitude;
  return s;
}

Subject along_directions(std::size_t axes, std::int64_t width, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  Subject s;
  const auto pairs = static_cast<std::size_t>(width / 2);
  GivenDirections directions{static_cast<std::int64_t>(axes), 1, {}};
  for (std::size_t a = 0; a < axes; ++a) {
    std::vector<MpfrReal> of_axis;
    for (std::size_t i = 0; i < pairs; ++i) {
      const double magnitude =
          std::ldexp(static_cast<double>(random() >> 11), -53 - static_cast<int>(random() % 40) + (i % 9 == 0 ? 30 : 0));
      directions.frequencies.push_back(i % 13 == 5 ? 0 : (random() & 1) != 0 ? magnitude : -magnitude);
      of_axis.push_back(directions.frequencies.back());
    }
    s.frequencies.push_back(of_axis);
  }
  s.spec = {.head_dim = width, .scaling = directions};
  return s;
}

MpfrReal exactly(std::int64_t n) { return MpfrReal::of_integer(n); }
MpfrReal exactly(double x) { return x; }

template <class T, class Position>
void expect_nearest(const Subject& subject, const std::vector<Position>& position) {
  const Result<Rotary> rotary = Rotary::make(subject.spec);
  ASSERT_TRUE(rotary.ok()) << rotary.status().message();
  const std::size_t axes = subject.frequencies.size();
  const auto tokens = static_cast<std::int64_t>(position.size() / axes);
  const std::int64_t pairs = rotary->rotary_width() / 2;
  const Extents shape = {1, tokens, 1, pairs};
  std::vector<Rows<T>> by_target;
  for (const std::string_view target : targets()) {
    ASSERT_TRUE(force_target(target).ok());
    by_target.emplace_back(tokens, pairs);
    const Positions at = positions(position.data(), static_cast<std::int64_t>(axes), 1, tokens);
    const Status status = rotary->cos_sin(at, view(by_target.back().cos.data(), shape), view(by_target.back().sin.data(), shape));
    EXPECT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(by_target.back().cos, by_target.front().cos) << target;
    EXPECT_EQ(by_target.back().sin, by_target.front().sin) << target;
  }
  ASSERT_TRUE(force_target("").ok());
  SinCosOracle truth;
  int wrong = 0;
  for (std::int64_t t = 0; t < tokens; ++t) {
    for (std::int64_t i = 0; i < pairs; ++i) {
      MpfrReal angle = 0;
      for (std::size_t a = 0; a < axes; ++a) {
        angle = angle + subject.frequencies[a][static_cast<std::size_t>(i)] *
                            exactly(position[a * static_cast<std::size_t>(tokens) + static_cast<std::size_t>(t)]);
      }
      truth.at(angle, 1.0, subject.amplitude);
      const T cos = std::is_same_v<T, float> ? static_cast<T>(truth.cos_float()) : static_cast<T>(truth.cos_double());
      const T sin = std::is_same_v<T, float> ? static_cast<T>(truth.sin_float()) : static_cast<T>(truth.sin_double());
      const bool bad = by_target.front().cos_at(t, i) != cos || by_target.front().sin_at(t, i) != sin;
      if (bad && wrong++ < 5) ADD_FAILURE() << "pair " << i << " of token " << t << " is not the nearest";
    }
  }
  EXPECT_EQ(wrong, 0);
}

/// (axes, T): axis a begins at first[a] and goes on by step[a] a token.
std::vector<std::int64_t> lines(const std::vector<std::int64_t>& first, const std::vector<std::int64_t>& step, std::int64_t tokens) {
  std::vector<std::int64_t> list;
  for (std::size_t a = 0; a < first.size(); ++a) {
    for (std::int64_t t = 0; t < tokens; ++t) list.push_back(first[a] + t * step[a]);
  }
  return list;
}

constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t least = std::numeric_limits<std::int64_t>::min();

TEST(AxesOracle, runs_of_axes_that_advance_or_rest_are_nearest) {
  for (const double amplitude : {1.0, 1.2079441541679836}) {
    const Subject subject = by_axis(3, 70, amplitude);
    expect_nearest<float>(subject, lines({100000, 100000, 100000}, {1, 1, 1}, 67));      // text
    expect_nearest<float>(subject, lines({1000, 77, -5}, {0, 0, 1}, 40));                // a row of an image, its width through 0
    expect_nearest<float>(subject, lines({1, 0, 3}, {0, 0, 1}, 40));                     // an axis that rests at 0
    expect_nearest<float>(subject, lines({-3, -3, -3}, {1, 1, 1}, 9));                   // through the origin
    expect_nearest<float>(subject, lines({9, 9, 9}, {0, 0, 0}, 5));                      // nowhere
    expect_nearest<float>(subject, lines({9, 9, 9}, {2, 1, 0}, 50));                     // no run
    expect_nearest<float>(subject, lines({most - 66, least, most / 3}, {1, 1, 1}, 67));  // the ends of int64
    expect_nearest<float>(subject, lines({most - 10, most - 10, least + 5}, {0, 1, 1}, 11));
  }
}

TEST(AxesOracle, an_axis_that_wraps_ends_its_run) {
  std::vector<std::int64_t> list = lines({5, most - 4}, {1, 0}, 10);
  for (std::int64_t t = 0; t < 10; ++t) list[static_cast<std::size_t>(10 + t)] = t < 5 ? most - 4 + t : least + t - 5;
  expect_nearest<float>(by_axis(2, 48), list);
}

TEST(AxesOracle, random_places_of_int64_are_nearest) {
  std::mt19937_64 random(51);
  for (const std::size_t axes : {2U, 3U, 4U}) {
    std::vector<std::int64_t> list(axes * 60);
    for (std::int64_t& p : list) p = oracle::draw_position(random);
    expect_nearest<float>(by_axis(axes, 128), list);
    expect_nearest<double>(by_axis(axes, 32), list);
  }
}

TEST(AxesOracle, sums_along_directions_are_nearest_at_any_position) {
  std::mt19937_64 random(52);
  for (const std::size_t axes : {2U, 3U, 4U}) {
    for (std::uint64_t seed = 0; seed < 6; ++seed) {
      const Subject subject = along_directions(axes, 134, seed);
      std::vector<std::int64_t> whole(axes * 40);
      for (std::int64_t& p : whole) p = random() % 3 == 0 ? oracle::draw_position(random) : static_cast<std::int64_t>(random() % 64) - 32;
      expect_nearest<float>(subject, whole);
      std::vector<double> fractions(axes * 40);
      for (double& p : fractions) p = oracle::draw_fraction(random);
      expect_nearest<float>(subject, fractions);
    }
    std::vector<std::int64_t> whole(axes * 20);
    for (std::int64_t& p : whole) p = static_cast<std::int64_t>(random() % 2000) - 1000;
    expect_nearest<double>(along_directions(axes, 62, 99), whole);
  }
}

/// Terms of almost opposite phases: what is left is so small that 128 bits of each are not enough.
TEST(AxesOracle, sums_that_almost_cancel_are_nearest) {
  Subject subject = along_directions(2, 32, 7);
  auto& given = std::get<GivenDirections>(subject.spec.scaling).frequencies;
  for (std::size_t i = 0; i < 16; ++i) {
    given[i] = 1 + static_cast<double>(i) / 16;
    given[16 + i] = std::nextafter(-given[i], i % 2 == 0 ? -9.0 : 9.0);
    subject.frequencies[0][i] = given[i];
    subject.frequencies[1][i] = given[16 + i];
  }
  std::mt19937_64 random(53);
  std::vector<std::int64_t> list;
  for (int t = 0; t < 50; ++t) list.push_back(oracle::draw_position(random));
  const std::vector<std::int64_t> same = list;
  list.insert(list.end(), same.begin(), same.end());
  expect_nearest<float>(subject, list);
  expect_nearest<float>(subject, std::vector<double>{0.1, 1e-9, 3e14, 0.1, 1e-9, 3e14});
}

/// With a turn that is wrong on purpose, rows that come from the recurrence are wrong, and no others.
TEST(AxesOracle, the_recurrence_makes_text_and_the_rows_of_images) {
  const Subject subject = by_axis(3, 192);
  Result<plan::RotaryPlan> plan = plan::make_rotary_plan(subject.spec);
  ASSERT_TRUE(plan.ok());
  plan::RotaryPlan spoiled = *plan;
  for (double& cos : spoiled.turn_cos) cos *= 0.5;
  struct Case {
    std::vector<std::int64_t> step;
    bool recurrence;
  };
  for (const Case& c : {Case{{1, 1, 1}, true}, Case{{0, 0, 1}, true}, Case{{1, 2, 1}, false}, Case{{-1, -1, -1}, false}}) {
    const std::vector<std::int64_t> at = lines({1000, 500, 200}, c.step, 32);
    for (const cpu::RotaryKernels* kernels : exact::available_kernels()) {
      Rows<float> sound(32, 96);
      Rows<float> wrong(32, 96);
      ASSERT_TRUE(exact::fill(*kernels, *plan, positions(at.data(), 3, 1, 32), sound).ok());
      ASSERT_TRUE(exact::fill(*kernels, spoiled, positions(at.data(), 3, 1, 32), wrong).ok());
      EXPECT_EQ(sound.cos != wrong.cos, c.recurrence && std::string_view(kernels->target) != "scalar") << kernels->target;
    }
  }
}

}  // namespace
}  // namespace phasor::test
