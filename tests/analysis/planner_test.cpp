// SPDX-License-Identifier: Apache-2.0
// The planner: what every published scaling does to the pairs, where extrapolation begins, and what it refuses.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "phasor/analysis.hpp"

namespace phasor::test {
namespace {

constexpr double kRounding = 0x1p-51;  // relative, of a quotient of doubles

PlannerInput input_of(const RotarySpec& spec, std::int64_t trained = 2048, std::int64_t wanted = 8192) {
  return {.spec = spec, .trained_length = trained, .wanted_length = wanted};
}

const PlannedScaling& named(const std::vector<PlannedScaling>& plans, const std::string& name) {
  for (const PlannedScaling& plan : plans) {
    if (plan.name == name) return plan;
  }
  static const PlannedScaling none{};
  ADD_FAILURE() << "no " << name;
  return none;
}

class Planner : public ::testing::Test {
 protected:
  void SetUp() override {
    auto made = plan_scalings(input_of({.head_dim = 128}));
    ASSERT_TRUE(made.ok()) << made.status().message();
    plans_ = *std::move(made);
  }
  const PlannedScaling& plan(const std::string& name) const { return named(plans_, name); }

  std::vector<PlannedScaling> plans_;
};

TEST_F(Planner, puts_every_published_method_beside_the_spec_as_trained) {
  std::vector<std::string> names;
  for (const PlannedScaling& p : plans_) {
    names.push_back(p.name);
    EXPECT_EQ(p.error, "");
    EXPECT_EQ(p.pairs.size(), 64U);
  }
  EXPECT_EQ(names, (std::vector<std::string>{"as trained", "linear", "ntk", "ntk_mixed", "dynamic", "yarn", "llama3", "proportional"}));
}

TEST_F(Planner, has_the_frequencies_and_amplitudes_of_the_rotary_itself) {
  for (const PlannedScaling& p : plans_) {
    const auto rotary = Rotary::make({.head_dim = 128, .scaling = p.scaling});
    ASSERT_TRUE(rotary.ok());
    EXPECT_EQ(p.amplitude, rotary->amplitude());
    EXPECT_EQ(p.softmax_scale, rotary->softmax_scale());
    const double turn = 2 * std::acos(-1.0);
    for (std::size_t i = 0; i < 64; ++i) {
      const double w = rotary->frequencies()[i];
      const double trained = plans_.front().pairs[i].frequency;
      EXPECT_EQ(p.pairs[i].frequency, w) << p.name;
      EXPECT_NEAR(p.pairs[i].ratio, w / trained, kRounding);
      EXPECT_NEAR(p.pairs[i].trained_turns, 2048 * w / turn, 2048 * w / turn * kRounding);
      EXPECT_NEAR(p.pairs[i].wanted_turns, 8192 * w / turn, 8192 * w / turn * kRounding);
    }
  }
}

TEST_F(Planner, says_that_without_scaling_extrapolation_begins_at_the_trained_length) {
  const PlannedScaling& p = plan("as trained");
  EXPECT_EQ(p.unseen_from, 2048);
  std::int64_t slow = 0;
  for (const PlannedPair& pair : p.pairs) {
    EXPECT_EQ(pair.ratio, 1);
    EXPECT_EQ(pair.unseen_from.has_value(), pair.trained_turns < 1);
    if (pair.unseen_from) {
      EXPECT_EQ(*pair.unseen_from, 2048);
    }
    slow += pair.trained_turns < 1 ? 1 : 0;
  }
  EXPECT_EQ(slow, 23);  // from pair 41 on: 64 log(2048 / 2 pi) / log(10000) = 40.2
  EXPECT_EQ(p.unseen_pairs, slow);
}

TEST_F(Planner, says_that_linear_scaling_sees_nothing_new_before_the_wanted_length) {
  for (const char* name : {"linear", "proportional"}) {
    EXPECT_EQ(plan(name).unseen_from, 8192) << name;
    EXPECT_EQ(plan(name).unseen_pairs, 0) << name;
    for (const PlannedPair& pair : plan(name).pairs) EXPECT_EQ(pair.ratio, 0.25);
  }
}

TEST_F(Planner, shows_that_ntk_keeps_the_fastest_pair_and_slows_the_last_by_the_factor) {
  EXPECT_EQ(plan("ntk").pairs.front().ratio, 1);
  EXPECT_EQ(plan("ntk").pairs.back().ratio, 0.25);
  EXPECT_EQ(plan("ntk").pairs.back().unseen_from, 8192);
  // Pair 41, the first that never came round, slows by 4^(41/63) only.
  const auto first = static_cast<std::int64_t>(std::ceil(2048 * std::pow(4.0, 41.0 / 63)));
  EXPECT_EQ(plan("ntk").pairs[41].unseen_from, first);
  EXPECT_EQ(plan("ntk").unseen_from, first);
  EXPECT_EQ(plan("ntk").unseen_pairs, 22);  // all but the last
  EXPECT_NEAR(plan("dynamic").pairs.back().ratio, 1.0 / (4 * 4 - 3), kRounding);
}

TEST_F(Planner, shows_that_yarn_and_llama3_leave_fast_pairs_alone_and_divide_slow_ones) {
  for (const char* name : {"yarn", "llama3"}) {
    EXPECT_EQ(plan(name).pairs.front().ratio, 1) << name;
    EXPECT_EQ(plan(name).pairs.back().ratio, 0.25) << name;
    EXPECT_GT(plan(name).pairs[36].ratio, 0.25) << name;
    EXPECT_LT(plan(name).pairs[36].ratio, 1) << name;
  }
  EXPECT_NEAR(plan("yarn").amplitude, 0.1 * std::log(4.0) + 1, kRounding);
  EXPECT_EQ(plan("llama3").amplitude, 1);
  EXPECT_EQ(plan("llama3").unseen_from, 8192);
}

TEST(PlannerSpecs, compare_with_the_spec_as_it_was_trained) {
  const RotarySpec spec{.head_dim = 64, .base = 500000, .scaling = LinearScaling{2}};
  const auto plans = plan_scalings(input_of(spec));
  ASSERT_TRUE(plans.ok());
  for (const PlannedPair& pair : named(*plans, "as trained").pairs) EXPECT_EQ(pair.ratio, 1);
  for (const PlannedPair& pair : named(*plans, "linear").pairs) EXPECT_EQ(pair.ratio, 0.5);  // a factor of 4 where 2 was trained
  EXPECT_EQ(named(*plans, "linear").unseen_from, 4096);
}

TEST(PlannerSpecs, keep_the_share_of_proportional_and_the_lists_of_longrope) {
  const auto proportional = plan_scalings(input_of({.head_dim = 16, .scaling = ProportionalScaling{1, 0.25}}));
  ASSERT_TRUE(proportional.ok());
  const PlannedScaling& p = named(*proportional, "proportional");
  EXPECT_EQ(p.pairs[1].ratio, 0.25);
  EXPECT_TRUE(std::isnan(p.pairs[2].ratio));
  EXPECT_EQ(p.pairs[2].unseen_from, std::nullopt);
  EXPECT_TRUE(std::isinf(named(*proportional, "linear").pairs[2].ratio));  // turns now, never did
  EXPECT_EQ(named(*proportional, "linear").pairs[2].unseen_from, 1);

  LongRopeScaling lists{.short_factors = {1, 1}, .long_factors = {1, 16}, .original_length = 2048, .factor = 4};
  lists.length = 2048;
  const auto longrope = plan_scalings(input_of({.head_dim = 4, .scaling = lists}));
  ASSERT_TRUE(longrope.ok());
  EXPECT_EQ(named(*longrope, "as trained").pairs[1].ratio, 1);
  EXPECT_EQ(named(*longrope, "longrope").pairs[1].ratio, 1.0 / 16);
}

TEST(PlannerSpecs, take_turns_and_several_axes) {
  RotarySpec turns{.head_dim = 12, .base = 100, .axes = {.sections = {2, 4}, .ladder = AxisLadder::own}};
  turns.unit = FrequencyUnit::turns;
  const auto plans = plan_scalings(input_of(turns, 3, 6));
  ASSERT_TRUE(plans.ok()) << plans.status().message();
  const auto rotary = Rotary::make(turns);
  for (std::size_t i = 0; i < 6; ++i) EXPECT_EQ(plans->front().pairs[i].frequency, rotary->frequencies()[i]);
  EXPECT_EQ(plans->front().pairs[0].trained_turns, 3);
}

TEST(PlannerSpecs, say_why_a_method_cannot_be_had_and_go_on) {
  PlannerInput input = input_of({.head_dim = 2});  // NTK's exponent R / (R - 2) has no value
  const auto plans = plan_scalings(input);
  ASSERT_TRUE(plans.ok());
  EXPECT_NE(named(*plans, "ntk").error, "");
  EXPECT_TRUE(named(*plans, "ntk").pairs.empty());
  EXPECT_EQ(named(*plans, "linear").error, "");
  input.scalings = {GivenFactors{.factors = {2}}, Unscaled{}, LinearScaling{-1}};
  const auto chosen = plan_scalings(input);
  ASSERT_TRUE(chosen.ok());
  ASSERT_EQ(chosen->size(), 4U);
  EXPECT_EQ((*chosen)[1].pairs[0].ratio, 0.5);
  EXPECT_EQ((*chosen)[2].name, "unscaled");
  EXPECT_NE((*chosen)[3].error.find("factor"), std::string::npos);
}

TEST(PlannerSpecs, refuse_lengths_and_frequencies_that_nothing_scales) {
  const auto message = [](const PlannerInput& input) { return plan_scalings(input).status().message(); };
  EXPECT_EQ(message(input_of({.head_dim = 8}, 0, 4)), "plan_scalings: trained_length is 0, wanted at least 1");
  EXPECT_EQ(message(input_of({.head_dim = 8}, 8, 4)), "plan_scalings: wanted_length is 4, wanted at least trained_length, 8");
  EXPECT_EQ(message(input_of({.head_dim = 2, .scaling = GivenFrequencies{.frequencies = {1}}})),
            "plan_scalings: scaling is given_frequencies, wanted one that follows from a base");
  EXPECT_EQ(message(input_of({.head_dim = 7})), Rotary::make({.head_dim = 7}).status().message());
  PlannerInput directions = input_of({.head_dim = 2});
  directions.scalings = {GivenDirections{.axes = 2, .heads = 1, .frequencies = {1, 2}}};
  EXPECT_EQ(message(directions), "plan_scalings: scalings have given_directions, wanted one frequency per pair");
}

}  // namespace
}  // namespace phasor::test
