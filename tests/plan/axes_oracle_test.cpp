// SPDX-License-Identifier: Apache-2.0
// Plans of several axes against MPFR at 512 bits: own and dealt ladders under every scaling they allow, turns, directions, per-channel
// frequencies.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "plan/mpfr_real.hpp"
#include "plan/rotary.hpp"

namespace phasor::test {
namespace {

using oracle::MpfrReal;

MpfrReal integer(std::int64_t n) { return MpfrReal::of_integer(n); }

plan::RotaryPlan plan_of(const RotarySpec& spec) {
  Result<plan::RotaryPlan> plan = plan::make_rotary_plan(spec);
  EXPECT_TRUE(plan.ok()) << plan.status().message();
  return *std::move(plan);
}

bool same(const math::Step& a, const math::Step& b) { return std::equal(a.fraction, a.fraction + 3, b.fraction) && a.whole == b.whole; }

/// base^(-2 i / width).
MpfrReal rung(const MpfrReal& base, std::int64_t width, std::int64_t i) {
  return MpfrReal(1) / oracle::power(base, integer(2 * i) / integer(width));
}

void expect_frequency(const plan::RotaryPlan& plan, std::size_t i, const MpfrReal& frequency) {
  EXPECT_TRUE(same(plan.steps[i], oracle::step_of(frequency))) << "pair " << i;
  EXPECT_EQ(plan.frequencies[i], frequency.nearest_double()) << "pair " << i;
}

TEST(AxesPlanOracle, an_own_ladder_begins_again_on_every_axis) {
  const plan::RotaryPlan plan = plan_of({.head_dim = 30, .base = 1e4, .axes = {.sections = {3, 7, 5}, .ladder = AxisLadder::own}});
  std::size_t i = 0;
  for (const std::int64_t section : {3, 7, 5}) {
    for (std::int64_t j = 0; j < section; ++j) expect_frequency(plan, i++, rung(1e4, 2 * section, j));
  }
  EXPECT_EQ(plan.axes, 3);
}

TEST(AxesPlanOracle, an_own_ladder_counts_the_pairs_of_its_axis_in_any_order) {
  const plan::RotaryPlan plan =
      plan_of({.head_dim = 26, .base = 500, .axes = {.sections = {5, 4, 4}, .order = AxisOrder::interleaved, .ladder = AxisLadder::own}});
  const std::int64_t section[] = {5, 4, 4};
  for (std::size_t i = 0; i < 13; ++i) expect_frequency(plan, i, rung(500, 2 * section[i % 3], static_cast<std::int64_t>(i / 3)));
}

/// Linear divides; NTK slows by R / (R - 2) of the axis's own width; the amplitude comes once.
TEST(AxesPlanOracle, a_scaling_is_applied_to_each_own_ladder) {
  const Axes axes = {.sections = {4, 6}, .ladder = AxisLadder::own};
  const plan::RotaryPlan linear = plan_of({.head_dim = 20, .base = 1e4, .scaling = LinearScaling{3}, .axes = axes});
  const plan::RotaryPlan ntk = plan_of({.head_dim = 20, .base = 1e4, .scaling = NtkScaling{7}, .axes = axes});
  const plan::RotaryPlan yarn =
      plan_of({.head_dim = 20, .base = 1e4, .scaling = YarnScaling{.factor = 4, .original_length = 4096}, .axes = axes});
  const std::int64_t width[] = {8, 12};
  for (std::size_t i = 0; i < 10; ++i) {
    const std::size_t axis = i < 4 ? 0 : 1;
    const auto j = static_cast<std::int64_t>(i < 4 ? i : i - 4);
    expect_frequency(linear, i, rung(1e4, width[axis], j) / 3);
    const MpfrReal base = MpfrReal(1e4) * oracle::power(7, integer(width[axis]) / integer(width[axis] - 2));
    expect_frequency(ntk, i, rung(base, width[axis], j));
    const plan::RotaryPlan one = plan_of({.head_dim = width[axis], .base = 1e4, .scaling = yarn.spec.scaling});
    EXPECT_TRUE(same(yarn.steps[i], one.steps[static_cast<std::size_t>(j)])) << i;
    EXPECT_EQ(yarn.amplitude, one.amplitude);
    EXPECT_EQ(yarn.softmax_scale, one.softmax_scale);
  }
  EXPECT_EQ(yarn.amplitude, (MpfrReal(1) + oracle::log_of(4) / 10).nearest_double());
}

TEST(AxesPlanOracle, a_dealt_ladder_gives_its_rungs_in_turn) {
  const plan::RotaryPlan plan =
      plan_of({.head_dim = 32, .base = 1e4, .scaling = LinearScaling{2}, .axes = {.sections = {8, 8}, .ladder = AxisLadder::dealt}});
  for (std::size_t i = 0; i < 16; ++i) {
    expect_frequency(plan, i, rung(1e4, 32, static_cast<std::int64_t>(i < 8 ? 2 * i : 2 * (i - 8) + 1)) / 2);
  }
  const plan::RotaryPlan uneven = plan_of({.head_dim = 16, .base = 1e4, .axes = {.sections = {3, 3, 2}, .ladder = AxisLadder::dealt}});
  const std::int64_t rungs[] = {0, 3, 6, 1, 4, 7, 2, 5};
  for (std::size_t i = 0; i < 8; ++i) expect_frequency(uneven, i, rung(1e4, 16, rungs[i]));
}

TEST(AxesPlanOracle, shared_ladders_are_those_of_one_axis) {
  const RotarySpec one{.head_dim = 128, .base = 5e6};
  RotarySpec three = one;
  three.axes = {.sections = {24, 20, 20}, .order = AxisOrder::interleaved};
  const plan::RotaryPlan a = plan_of(one);
  const plan::RotaryPlan b = plan_of(three);
  for (std::size_t i = 0; i < 64; ++i) EXPECT_TRUE(same(a.steps[i], b.steps[i])) << i;
}

/// In turns there is no pi: 1 is one whole turn, a half is half of one, to the last bit.
TEST(AxesPlanOracle, turns_are_steps_without_pi) {
  RotarySpec spec{.head_dim = 12, .scaling = GivenFrequencies{{1, 0.5, -0.25, 3.75, 0x1p-100, 1.0 / 3}}};
  spec.unit = FrequencyUnit::turns;
  const plan::RotaryPlan plan = plan_of(spec);
  constexpr math::u64 top = math::u64{1} << 63;
  EXPECT_TRUE(same(plan.steps[0], {{0, 0, 0}, 1}));
  EXPECT_TRUE(same(plan.steps[1], {{0, 0, top}, 0}));
  EXPECT_TRUE(same(plan.steps[2], {{0, 0, top + top / 2}, -1}));
  EXPECT_TRUE(same(plan.steps[3], {{0, 0, top + top / 2}, 3}));
  EXPECT_TRUE(same(plan.steps[4], {{0, math::u64{1} << 28, 0}, 0}));
  const MpfrReal two_pi = MpfrReal(2) * MpfrReal::pi();
  EXPECT_TRUE(same(plan.steps[5], oracle::step_of(two_pi * MpfrReal(1.0 / 3))));
  for (std::size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(plan.frequencies[i], (two_pi * std::get<GivenFrequencies>(spec.scaling).frequencies[i]).nearest_double());
  }
}

TEST(AxesPlanOracle, a_ladder_in_turns_is_the_ladder_times_a_turn) {
  RotarySpec spec{.head_dim = 64, .base = 100, .axes = {.sections = {16, 16}, .ladder = AxisLadder::own}};
  spec.unit = FrequencyUnit::turns;
  const plan::RotaryPlan plan = plan_of(spec);
  const MpfrReal two_pi = MpfrReal(2) * MpfrReal::pi();
  for (std::size_t i = 1; i < 32; ++i) {  // pair 0 is a whole turn, which oracle::step_of rounds to
    expect_frequency(plan, i, two_pi * rung(100, 32, static_cast<std::int64_t>(i % 16)));
  }
}

TEST(AxesPlanOracle, turns_out_of_range_are_an_error_in_radians) {
  RotarySpec spec{.head_dim = 2, .scaling = GivenFrequencies{{0x1p62}}};
  EXPECT_TRUE(plan::make_rotary_plan(spec).ok());
  spec.unit = FrequencyUnit::turns;
  const Status status = plan::make_rotary_plan(spec).status();
  EXPECT_EQ(status.message(), "RotarySpec: the frequency of pair 0 is 2.89761e+19, wanted 0 or 2^-130 to 2^64 radians per position");
}

TEST(AxesPlanOracle, directions_are_taken_as_they_are) {
  GivenDirections s{3, 2, {}};
  for (int i = 0; i < 3 * 2 * 5; ++i) s.frequencies.push_back(i % 4 == 1 ? 0 : std::ldexp(i % 2 == 0 ? 1 + i : -1 - i, -i));
  const plan::RotaryPlan plan = plan_of({.head_dim = 10, .scaling = s});
  ASSERT_EQ(plan.steps.size(), 30U);
  for (std::size_t i = 0; i < 30; ++i) expect_frequency(plan, i, s.frequencies[i]);
  EXPECT_EQ(plan.axes, 3);
  EXPECT_EQ(plan.heads, 2);
  EXPECT_TRUE(plan.axis_of_pair.empty());
}

/// Lane l of pair j of a segment is channel 2 j + l, which turns as pair (2 j + l) mod 5 of its segment does.
TEST(AxesPlanOracle, per_channel_frequencies_are_the_channels_of_a_segment_modulo_its_pairs) {
  RotarySpec spec{.head_dim = 20, .pairing = Pairing::interleaved, .axes = {.sections = {5, 5}, .ladder = AxisLadder::own}};
  spec.segments = 2;
  spec.lanes = Lanes::per_channel_frequencies;
  const plan::RotaryPlan plan = plan_of(spec);
  ASSERT_EQ(plan.per_channel.steps.size(), 20U);
  for (std::size_t lane = 0; lane < 2; ++lane) {
    for (std::size_t pair = 0; pair < 10; ++pair) {
      const std::size_t from = pair / 5 * 5 + (2 * (pair % 5) + lane) % 5;
      EXPECT_TRUE(same(plan.per_channel.steps[lane * 10 + pair], oracle::step_of(rung(1e4, 10, static_cast<std::int64_t>(from % 5)))));
      EXPECT_EQ(plan.per_channel.axis_of_pair[lane * 10 + pair], pair / 5);
      EXPECT_EQ(plan.per_channel.turn_cos[lane * 10 + pair], plan.turn_cos[from]);
      EXPECT_EQ(plan.per_channel.turn_sin[lane * 10 + pair], plan.turn_sin[from]);
    }
  }
}

}  // namespace
}  // namespace phasor::test
