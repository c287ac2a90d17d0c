// SPDX-License-Identifier: Apache-2.0
// Rows of rerotation on every target against MPFR: the float nearest to the cosine and sine of the difference of two exact angles, at any
// positions, and the recurrence over consecutive ones.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "math/exact_oracle.hpp"
#include "ops/rotary/rerotate_call.hpp"

namespace phasor::test {
namespace {

using oracle::MpfrReal;
using oracle::SinCosOracle;

/// A spec and the frequencies the oracle has for it.
struct Subject {
  RotarySpec spec;
  std::vector<MpfrReal> frequencies;
};

Subject ladder_subject(double base, int width) { return {{.head_dim = width, .base = base}, oracle::ladder(base, width)}; }

Subject given_subject(const std::vector<double>& frequencies, double amplitude) {
  Subject s;
  s.spec = {.head_dim = 2 * static_cast<std::int64_t>(frequencies.size())};
  s.spec.scaling = GivenFrequencies{frequencies, amplitude};
  s.frequencies.assign(frequencies.begin(), frequencies.end());
  return s;
}

MpfrReal real(std::int64_t position) { return MpfrReal::of_integer(position); }
MpfrReal real(double position) { return {position}; }

/// Whether a value is the nearest of its type to the truth.
bool is_nearest(float cos, float sin, const SinCosOracle& truth) { return cos == truth.cos_float() && sin == truth.sin_float(); }
bool is_nearest(double cos, double sin, const SinCosOracle& truth) { return cos == truth.cos_double() && sin == truth.sin_double(); }

template <class V, class From, class To>
void expect_nearest(const Subject& from, const std::vector<From>& a, const Subject& to, const std::vector<To>& b) {
  const auto tokens = static_cast<std::int64_t>(a.size());
  const Moving m = {{make_rotary(from.spec), positions(a.data(), tokens)}, {make_rotary(to.spec), positions(b.data(), tokens)}, 1, tokens};
  const double quotient = m.to.rotary.amplitude() / m.from.rotary.amplitude();
  const bool opposed = from.spec.sense != to.spec.sense;
  SinCosOracle truth;
  for (const std::string_view target : targets()) {
    const OnTarget forced(target);
    const reference::Rows<V> rows = rows_by_probe<V>(m);
    for (std::int64_t t = 0; t < tokens; ++t) {
      for (std::int64_t i = 0; i < m.pairs(); ++i) {
        const std::size_t at = rows.index(0, t, i);
        const MpfrReal before = from.frequencies[static_cast<std::size_t>(i)] * real(a[static_cast<std::size_t>(t)]);
        const MpfrReal after = to.frequencies[static_cast<std::size_t>(i)] * real(b[static_cast<std::size_t>(t)]);
        const MpfrReal angle = opposed ? after + before : after - before;
        truth.at(to.spec.sense == Sense::clockwise ? MpfrReal(0) - angle : angle, std::int64_t{1}, quotient);
        ASSERT_TRUE(is_nearest(rows.cos[0][at], rows.sin[0][at], truth))
            << target << ": pair " << i << " from " << a[static_cast<std::size_t>(t)] << " to " << b[static_cast<std::size_t>(t)] << " is "
            << rows.cos[0][at] << " " << rows.sin[0][at] << ", wanted " << truth.cos_double() << " " << truth.sin_double();
      }
    }
  }
}

template <class Draw>
auto draws(Draw draw, std::size_t count, std::mt19937_64& random) {
  std::vector<decltype(draw(random))> list(count);
  for (auto& x : list) x = draw(random);
  return list;
}

std::vector<std::int64_t> run(std::int64_t first, std::size_t count) {
  std::vector<std::int64_t> list(count);
  for (std::size_t i = 0; i < count; ++i) list[i] = first + static_cast<std::int64_t>(i);
  return list;
}

TEST(DifferenceRowsOracle, random_rows_between_two_ladders_over_all_of_int64_are_nearest) {
  std::mt19937_64 random(1);
  for (int k = 0; k < 30; ++k) {
    const oracle::LadderDraw drawn = oracle::draw_ladder(random);
    const int width = std::min(drawn.width, 90);
    Subject from = ladder_subject(drawn.base, width);
    Subject to = ladder_subject(drawn.base * (1 + static_cast<double>(k)), width);
    from.spec.sense = k % 5 == 3 ? Sense::clockwise : Sense::counterclockwise;
    to.spec.sense = k % 7 == 3 ? Sense::clockwise : Sense::counterclockwise;
    expect_nearest<float>(from, draws(oracle::draw_position, 12, random), to, draws(oracle::draw_position, 12, random));
  }
}

TEST(DifferenceRowsOracle, consecutive_rows_between_two_ladders_are_nearest) {
  std::mt19937_64 random(2);
  for (int k = 0; k < 20; ++k) {
    const oracle::LadderDraw drawn = oracle::draw_ladder(random);
    const int width = std::min(drawn.width, 70);
    Subject from = ladder_subject(drawn.base, width);
    const Subject to = ladder_subject(drawn.base * 1.5, width);
    if (k % 4 == 3) from.spec.sense = Sense::clockwise;
    const std::vector<std::int64_t> a = run(oracle::draw_position(random) / 2, 45);
    expect_nearest<float>(from, a, to, k % 2 == 0 ? a : run(oracle::draw_position(random) / 2, 45));
  }
}

TEST(DifferenceRowsOracle, rows_from_the_origin_on_are_nearest) {
  const Subject from = ladder_subject(10000, 64);
  const Subject to = ladder_subject(40000, 64);
  expect_nearest<float>(from, run(-3, 70), to, run(-3, 70));
  expect_nearest<float>(from, run(0, 33), to, run(1000000, 33));
  expect_nearest<float>(from, run(INT64_MAX - 32, 33), to, run(INT64_MIN, 33));  // to the very ends
}

TEST(DifferenceRowsOracle, fractional_and_mixed_positions_are_nearest) {
  std::mt19937_64 random(3);
  for (int k = 0; k < 12; ++k) {
    const Subject from = ladder_subject(10000, 42);
    const Subject to = ladder_subject(k % 3 == 0 ? 10000 : 777, 42);
    const std::vector<double> a = draws(oracle::draw_fraction, 10, random);
    const std::vector<double> b = draws(oracle::draw_fraction, 10, random);
    const std::vector<std::int64_t> whole = draws(oracle::draw_position, 10, random);
    expect_nearest<float>(from, a, to, b);
    expect_nearest<float>(from, a, to, whole);
    expect_nearest<float>(from, whole, to, b);
    expect_nearest<double>(from, a, to, b);
  }
}

TEST(DifferenceRowsOracle, shifts_within_one_ladder_are_nearest_beyond_the_range_of_int64_too) {
  const Subject one = ladder_subject(500000, 50);
  const std::vector<std::int64_t> low = {INT64_MIN, INT64_MIN, -5, INT64_MAX, 0, -(std::int64_t{1} << 62)};
  const std::vector<std::int64_t> high = {INT64_MAX, 3, INT64_MAX, INT64_MIN, INT64_MIN, std::int64_t{1} << 62};
  expect_nearest<float>(one, low, one, high);
  expect_nearest<double>(one, low, one, high);
}

TEST(DifferenceRowsOracle, quotients_of_amplitudes_are_in_the_one_rounding) {
  std::mt19937_64 random(4);
  const std::vector<double> frequencies = {1, 0.5, -0.25, 0, 3e-5, 2e9, 0x1p-120, 0.9, 0.8, 0.7, 0.6, 0.55, 0.45, 0.35, 0.3, 0.2, 1e-9};
  std::vector<double> others = frequencies;
  for (std::size_t i = 4; i < others.size(); i += 3) others[i] *= 0.5;
  for (const double amplitude : {1.0, 1.2772588722239781, 0.1, 1e6}) {
    const Subject from = given_subject(frequencies, 1.1386294361119891);
    const Subject to = given_subject(others, amplitude);
    expect_nearest<float>(from, draws(oracle::draw_position, 12, random), to, draws(oracle::draw_position, 12, random));
    expect_nearest<float>(from, run(5000, 40), to, run(5000, 40));
    expect_nearest<float>(from, run(5000, 40), to, run(1 << 20, 40));
  }
}

TEST(DifferenceRowsOracle, float64_rows_between_two_ladders_are_nearest) {
  std::mt19937_64 random(5);
  for (int k = 0; k < 6; ++k) {
    expect_nearest<double>(ladder_subject(10000, 64), draws(oracle::draw_position, 8, random), ladder_subject(500000, 64),
                           draws(oracle::draw_position, 8, random));
  }
}

/// Angles that nearly agree: level 1 cannot prove them, and 128 bits of phase are not enough.
TEST(DifferenceRowsOracle, differences_next_to_nothing_are_nearest) {
  std::vector<double> frequencies;
  std::vector<double> others;
  for (int i = 0; i < 24; ++i) {
    frequencies.push_back(0.37 * (i + 1));
    others.push_back(std::nextafter(frequencies.back(), 100.0));
  }
  const Subject from = given_subject(frequencies, 1);
  const Subject to = given_subject(others, 1);
  expect_nearest<float>(from, run(0, 40), to, run(0, 40));
  const std::vector<std::int64_t> far = {(std::int64_t{1} << 62) + 1, -(std::int64_t{1} << 61), 3, 1000003, -7};
  expect_nearest<float>(from, far, to, far);
}

}  // namespace
}  // namespace phasor::test
