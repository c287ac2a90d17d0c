// SPDX-License-Identifier: Apache-2.0
// Plans: worked frequencies, published models against golden values, the peers' defects that must not appear here, and failures.
#include "plan/rotary.hpp"
#include "plan/real.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "golden_file.hpp"

namespace phasor::test {
namespace {

RotarySpec spec_of(std::int64_t width, double base, Scaling scaling = Unscaled{}) {
  RotarySpec spec;
  spec.head_dim = width;
  spec.base = base;
  spec.scaling = std::move(scaling);
  return spec;
}

plan::RotaryPlan plan_of(const RotarySpec& spec) {
  auto plan = plan::make_rotary_plan(spec);
  EXPECT_EQ(plan.status().message(), "");
  return plan ? *plan : plan::RotaryPlan{};
}

YarnScaling yarn(double factor, std::int64_t original_length, YarnRamp ramp = YarnRamp::truncated) {
  YarnScaling s;
  s.factor = factor;
  s.original_length = original_length;
  s.ramp = ramp;
  return s;
}

std::string message_of(const RotarySpec& spec) { return plan::make_rotary_plan(spec).status().message(); }

// ---- Worked values ----

TEST(RotaryPlan, width_8_and_base_10000_turn_by_powers_of_a_tenth) {
  const auto plan = plan_of(spec_of(8, 10000));
  EXPECT_EQ(plan.frequencies, (std::vector<double>{1, 0.1, 0.01, 0.001}));
  EXPECT_EQ(plan.amplitude, 1);
  EXPECT_EQ(plan.inverse_amplitude, 1);
  EXPECT_EQ(plan.softmax_scale, 1);
  EXPECT_EQ(plan.turning_pairs, 4);
}

TEST(RotaryPlan, slowest_pair_of_width_128_and_base_10000_turns_by_1_155e_minus_4) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3e", plan_of(spec_of(128, 10000)).frequencies.back());
  EXPECT_STREQ(text, "1.155e-04");
}

TEST(RotaryPlan, rotary_width_is_filled_in_and_the_rest_of_the_spec_kept) {
  RotarySpec spec = spec_of(10, 100);
  spec.sense = Sense::clockwise;
  EXPECT_EQ(plan_of(spec).spec.rotary_width, 10);
  EXPECT_EQ(plan_of(spec).spec.sense, Sense::clockwise);
  spec.rotary_width = 6;
  spec.rotary_offset = 3;
  const auto plan = plan_of(spec);
  EXPECT_EQ(plan.spec.rotary_width, 6);
  EXPECT_EQ(plan.spec.rotary_offset, 3);
  EXPECT_EQ(plan.steps.size(), 3U);
}

TEST(RotaryPlan, negative_frequencies_have_the_floor_and_the_complemented_fraction) {
  const auto plan = plan_of(spec_of(4, 1, GivenFrequencies{{1.5, -1.5}, 1}));
  const math::Step& up = plan.steps[0];
  const math::Step& down = plan.steps[1];
  EXPECT_EQ(up.whole, 0);
  EXPECT_EQ(down.whole, -1);
  EXPECT_EQ(down.fraction[0], ~up.fraction[0] + 1);
  EXPECT_EQ(down.fraction[1], ~up.fraction[1]);
  EXPECT_EQ(down.fraction[2], ~up.fraction[2]);
  EXPECT_EQ(plan.turn_cos[0], plan.turn_cos[1]);
  EXPECT_EQ(plan.turn_sin[0], -plan.turn_sin[1]);
}

TEST(Step, of_a_frequency_that_rounds_to_no_turn_is_zero) {
  // -1e-70 is above -2^-193 turns: the nearest step is 0, not -1 and a fraction of nearly one.
  const math::Step step = plan::step_of(plan::Real(-1e-70));
  EXPECT_EQ(step.whole, 0);
  EXPECT_EQ(step.fraction[2], 0U);
}

TEST(RotaryPlan, turning_pairs_end_after_the_last_pair_that_turns) {
  EXPECT_EQ(plan_of(spec_of(8, 1, GivenFrequencies{{0, 0, 1, 0}, 1})).turning_pairs, 3);
  EXPECT_EQ(plan_of(spec_of(8, 1, GivenFrequencies{{0, 0, 0, 0}, 1})).turning_pairs, 0);
  EXPECT_EQ(plan_of(spec_of(512, 1e6, ProportionalScaling{1, 0.25})).turning_pairs, 64);
  EXPECT_EQ(plan_of(spec_of(8, 1e4, ProportionalScaling{1, 0})).turning_pairs, 0);
}

TEST(RotaryPlan, proportional_share_is_counted_as_hugging_face_counts) {
  EXPECT_EQ(plan_of(spec_of(20, 1e4, ProportionalScaling{1, 0.3})).turning_pairs, 3);  // float64(0.3) * 20 / 2 is below 3 exactly
  EXPECT_EQ(plan_of(spec_of(20, 1e4, ProportionalScaling{1, 0.39})).turning_pairs, 3);
}

TEST(RotaryPlan, longrope_takes_the_long_list_only_beyond_the_original_length) {
  LongRopeScaling s;
  s.short_factors = {1, 2};
  s.long_factors = {4, 8};
  s.original_length = 100;
  const auto second_frequency = [&](LongRopeChoice choice, std::int64_t length) {
    s.choice = choice;
    s.length = length;
    return plan_of(spec_of(4, 4, s)).frequencies[1];
  };
  EXPECT_EQ(second_frequency(LongRopeChoice::by_length, 100), 0.25);
  EXPECT_EQ(second_frequency(LongRopeChoice::by_length, 101), 0.0625);
  EXPECT_EQ(second_frequency(LongRopeChoice::short_factors, 101), 0.25);
  EXPECT_EQ(second_frequency(LongRopeChoice::long_factors, 100), 0.0625);
}

TEST(RotaryPlan, dynamic_ntk_within_the_trained_length_changes_nothing) {
  const auto plain = plan_of(spec_of(128, 10000)).frequencies;
  EXPECT_EQ(plan_of(spec_of(128, 10000, DynamicNtkScaling{4, 4096, 0})).frequencies, plain);
  EXPECT_EQ(plan_of(spec_of(128, 10000, DynamicNtkScaling{4, 4096, 4096})).frequencies, plain);
  EXPECT_NE(plan_of(spec_of(128, 10000, DynamicNtkScaling{4, 4096, 4097})).frequencies, plain);
}

TEST(RotaryPlan, llama3_with_equal_factors_has_no_ramp) {
  const auto plain = plan_of(spec_of(128, 500000)).frequencies;
  const auto eighth = plan_of(spec_of(128, 500000, LinearScaling{8})).frequencies;
  const auto scaled = plan_of(spec_of(128, 500000, Llama3Scaling{8, 2, 2, 8192})).frequencies;
  std::size_t changed = 0;
  while (changed < scaled.size() && scaled[changed] == plain[changed]) ++changed;
  EXPECT_EQ(changed, 32U);  // 64 ln(8192 / (4 pi)) / ln(500000) is 31.6
  for (std::size_t i = changed; i < scaled.size(); ++i) EXPECT_EQ(scaled[i], eighth[i]);
}

TEST(RotaryPlan, softmax_scale_of_yarn_can_be_left_unchanged) {
  YarnScaling s = yarn(40, 4096);
  s.mscale = 1;
  s.mscale_all_dim = 1;
  EXPECT_EQ(plan_of(spec_of(64, 10000, s)).amplitude, 1);
  EXPECT_GT(plan_of(spec_of(64, 10000, s)).softmax_scale, 1.87);
  s.softmax = YarnSoftmax::unchanged;
  EXPECT_EQ(plan_of(spec_of(64, 10000, s)).softmax_scale, 1);
}

// ---- Defects of peers ----

/// First pair that is scaled at all and first pair that is scaled fully.
std::pair<std::size_t, std::size_t> ramp_of(std::int64_t width, double base, const YarnScaling& s) {
  const auto plain = plan_of(spec_of(width, base)).frequencies;
  const auto slowest = plan_of(spec_of(width, base, LinearScaling{s.factor})).frequencies;
  const auto scaled = plan_of(spec_of(width, base, s)).frequencies;
  std::size_t low = 0;
  while (low < scaled.size() && scaled[low] == plain[low]) ++low;
  std::size_t high = low;
  while (high < scaled.size() && scaled[high] != slowest[high]) ++high;
  return {low, high};
}

TEST(RotaryPlan, yarn_range_comes_from_the_original_length_and_not_four_times_it) {                 // vLLM's MRotaryEmbedding
  EXPECT_EQ(ramp_of(128, 1e6, yarn(4, 32768)), (std::pair<std::size_t, std::size_t>(24, 40)));      // the range (23, 40)
  EXPECT_EQ(ramp_of(128, 1e6, yarn(4, 4 * 32768)), (std::pair<std::size_t, std::size_t>(31, 47)));  // the defect: (30, 47)
}

TEST(RotaryPlan, yarn_range_of_no_width_is_a_jump) {  // both ends 0: five positions are less than one turn of pair 0
  EXPECT_EQ(ramp_of(64, 10000, yarn(4, 5)), (std::pair<std::size_t, std::size_t>(1, 1)));
}

TEST(RotaryPlan, yarn_ramp_of_gpt_oss_ends_between_pairs) {  // ggml and GGUF have only whole ends
  const auto plain = plan_of(spec_of(64, 150000)).frequencies;
  const auto exact = plan_of(spec_of(64, 150000, yarn(32, 4096, YarnRamp::exact))).frequencies;
  const auto truncated = plan_of(spec_of(64, 150000, yarn(32, 4096))).frequencies;
  const auto share = [&](std::size_t i) { return (1 - exact[i] / plain[i]) / (1 - 1.0 / 32); };
  const double per_pair = (share(17) - share(9)) / 8;
  const double low = 9 - share(9) / per_pair;
  const double high = low + 1 / per_pair;
  EXPECT_EQ(std::floor(low * 100), 809);
  EXPECT_EQ(std::round(high * 100), 1740);
  EXPECT_EQ(std::round(100 * (truncated[17] / exact[17] - 1)), 76);  // percent, the pair that differs most
  EXPECT_EQ(ramp_of(64, 150000, yarn(32, 4096)), (std::pair<std::size_t, std::size_t>(9, 18)));
}

TEST(RotaryPlan, explicit_attention_factor_wins_over_the_gain) {  // llama.cpp overwrites it with g(factor, 1)
  YarnScaling s = yarn(32, 4096);
  s.mscale = 0.7;
  s.mscale_all_dim = 0.9;
  s.attention_factor = 1.5;
  EXPECT_EQ(plan_of(spec_of(64, 150000, s)).amplitude, 1.5);
  EXPECT_EQ(plan_of(spec_of(64, 150000, s)).inverse_amplitude, 1 / 1.5);
  s.attention_factor.reset();
  EXPECT_NE(plan_of(spec_of(64, 150000, s)).amplitude, 1.5);
}

// ---- Failures ----

TEST(RotaryPlan, invalid_spec_is_reported_as_the_spec_check_says) {
  EXPECT_EQ(message_of(spec_of(7, 10000)), "RotarySpec: head_dim is 7, wanted an even number");
  EXPECT_EQ(message_of(spec_of(8, 10000, GivenFactors{{1}, 1})),
            "RotarySpec: scaling.factors has 1 entries, wanted 4, half the rotary width");
}

TEST(RotaryPlan, valid_fields_whose_numbers_leave_the_range_are_reported) {
  EXPECT_EQ(message_of(spec_of(4, 1e-100)),
            "RotarySpec: the frequency of pair 1 is 1e+50, wanted 0 or 2^-130 to 2^64 radians per position");
  EXPECT_EQ(message_of(spec_of(4, 1, LinearScaling{1e-300})),
            "RotarySpec: the frequency of pair 0 is 1e+300, wanted 0 or 2^-130 to 2^64 radians per position");
  EXPECT_EQ(message_of(spec_of(4, 1e200)),
            "RotarySpec: the frequency of pair 1 is 1e-100, wanted 0 or 2^-130 to 2^64 radians per position");
  YarnScaling s = yarn(2.718281828459045, 4096);
  s.mscale_all_dim = 1e300;
  EXPECT_EQ(message_of(spec_of(64, 10000, s)), "RotarySpec: the softmax scale of the scaling is 1e+598, wanted 2^-64 to 2^64");
  s.mscale_all_dim = 1.23456789e300;
  EXPECT_EQ(message_of(spec_of(64, 10000, s)), "RotarySpec: the softmax scale of the scaling is 1.52416e+598, wanted 2^-64 to 2^64");
  s.mscale_all_dim = 3.1622776e300;  // six nines, which six digits round up
  EXPECT_EQ(message_of(spec_of(64, 10000, s)), "RotarySpec: the softmax scale of the scaling is 1e+599, wanted 2^-64 to 2^64");
  s.mscale_all_dim = 1e300;
  s.mscale = 1;
  EXPECT_EQ(message_of(spec_of(64, 10000, s)), "RotarySpec: the amplitude of the scaling is 1.1e-299, wanted 2^-64 to 2^64");
}

TEST(RotaryPlan, yarn_ramp_that_meets_no_pair_is_reported) {
  const std::string wanted = ", wanted one in which some pair turns between scaling.beta_slow and scaling.beta_fast times";
  EXPECT_EQ(message_of(spec_of(64, 10000, yarn(4, 1))), "RotarySpec: scaling.original_length is 1" + wanted);
  EXPECT_EQ(message_of(spec_of(8, 2, yarn(4, 1000000))), "RotarySpec: scaling.original_length is 1000000" + wanted);
}

// ---- Published models ----

std::map<std::string, RotarySpec> golden_specs() {
  YarnScaling deepseek_v3 = yarn(40, 4096);
  deepseek_v3.mscale = deepseek_v3.mscale_all_dim = 1;
  YarnScaling deepseek_v2 = yarn(40, 4096);
  deepseek_v2.mscale = deepseek_v2.mscale_all_dim = 0.707;
  LongRopeScaling longrope;
  for (int i = 0; i < 48; ++i) longrope.long_factors.push_back(1 + i / 4.0);
  longrope.short_factors.assign(48, 1);
  longrope.original_length = 4096;
  longrope.factor = 32;
  longrope.choice = LongRopeChoice::long_factors;
  return {
      {"llama_2", spec_of(128, 10000)},
      {"llama_3_1", spec_of(128, 500000, Llama3Scaling{})},
      {"llama_3_2", spec_of(64, 500000, Llama3Scaling{32, 1, 4, 8192})},
      {"gemma_3_global", spec_of(256, 1000000, LinearScaling{8})},
      {"gemma_4_full", spec_of(512, 1000000, ProportionalScaling{1, 0.25})},
      {"qwen_2_5_yarn", spec_of(128, 1000000, yarn(4, 32768))},
      {"gpt_oss", spec_of(64, 150000, yarn(32, 4096, YarnRamp::exact))},
      {"deepseek_v3", spec_of(64, 10000, deepseek_v3)},
      {"deepseek_v2", spec_of(64, 10000, deepseek_v2)},
      {"longrope_long", spec_of(96, 10000, longrope)},
      {"hunyuan_alpha_1000", spec_of(128, 10000, NtkScaling{1000})},
      {"dynamic_ntk_20000", spec_of(128, 10000, DynamicNtkScaling{2, 4096, 20000})},
      {"ntk_mixed_0.625", spec_of(64, 10000, NtkMixedScaling{8, 0.625})},
  };
}

double hex_double(const std::string& text) { return std::strtod(text.c_str(), nullptr); }

std::string hex_fraction(const math::Step& step) {
  char text[64];
  std::snprintf(text, sizeof text, "%016llx%016llx%016llx", static_cast<unsigned long long>(step.fraction[2]),
                static_cast<unsigned long long>(step.fraction[1]), static_cast<unsigned long long>(step.fraction[0]));
  return text;
}

void compare_with_golden(std::istream& file, const plan::RotaryPlan& plan) {
  std::string amplitude;
  std::string softmax_scale;
  std::size_t pairs = 0;
  file >> amplitude >> softmax_scale >> pairs;
  EXPECT_EQ(plan.amplitude, hex_double(amplitude));
  EXPECT_EQ(plan.softmax_scale, hex_double(softmax_scale));
  ASSERT_EQ(plan.steps.size(), pairs);
  for (std::size_t i = 0; i < pairs; ++i) {
    std::string frequency;
    std::string fraction;
    math::i64 whole = 0;
    file >> frequency >> whole >> fraction;
    EXPECT_EQ(plan.frequencies[i], hex_double(frequency)) << "pair " << i;
    EXPECT_EQ(plan.steps[i].whole, whole) << "pair " << i;
    EXPECT_EQ(hex_fraction(plan.steps[i]), fraction) << "pair " << i;
  }
}

TEST(RotaryPlan, published_models_have_the_golden_steps) {
  auto specs = golden_specs();
  std::ifstream file(test::golden_file("rotary_scalings.txt"));
  ASSERT_TRUE(file.is_open());
  std::string word;
  while (file >> word) {
    if (word == "#") {
      std::getline(file, word);
      continue;
    }
    ASSERT_EQ(word, "case");
    file >> word;
    SCOPED_TRACE(word);
    ASSERT_EQ(specs.count(word), 1U);
    compare_with_golden(file, plan_of(specs[word]));
    specs.erase(word);
  }
  EXPECT_TRUE(specs.empty()) << "not in the file: " << specs.begin()->first;
}

}  // namespace
}  // namespace phasor::test
