// SPDX-License-Identifier: Apache-2.0
// explain: golden screens of known models, and its numbers against a naive computation in double.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numbers>
#include <sstream>

#include "analysis/model/rope.hpp"
#include "analysis/models.hpp"
#include "golden_file.hpp"
#include "phasor/analysis.hpp"

namespace phasor::test {
namespace {

using nlohmann::json;

/// What naive double arithmetic may be off by, relative, in wavelengths and factors.
constexpr double kNaive = 1e-12;

std::string golden(const std::string& name) {
  std::ifstream file(test::golden_file("explain/" + name + ".txt"));
  EXPECT_TRUE(file.good()) << name;
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

json facts_of(const ModelPositions& model) {
  const auto text = explain_json(model);
  EXPECT_TRUE(text.ok()) << text.status().message();
  return json::parse(*text);
}

/// How diff calls the model.
std::string found_name(const ModelPositions& model) {
  const auto found = diff(models::bert(), model);
  return found.ok() && !found->empty() ? found->front().right : "";
}

struct Named {
  const char* name;
  ModelPositions model;
};

std::vector<Named> all_models() {
  return {{"llama31", models::llama31()},   {"gemma3", models::gemma3()},           {"gpt_oss", models::gpt_oss()},
          {"qwen2_vl", models::qwen2_vl()}, {"deepseek_v3", models::deepseek_v3()}, {"bloom", models::bloom()},
          {"bert", models::bert()},         {"llama4", models::llama4()},           {"t5", models::t5()}};
}

TEST(Explain, the_screens_of_known_models_are_the_golden_ones) {
  for (const Named& one : all_models()) {
    const auto text = explain(one.model);
    ASSERT_TRUE(text.ok()) << one.name << ": " << text.status().message();
    EXPECT_EQ(*text, golden(one.name)) << one.name;
  }
}

TEST(Explain, a_model_fits_on_one_screen_of_100_columns) {
  for (const Named& one : all_models()) {
    std::istringstream lines(*explain(one.model));
    std::string line;
    int count = 0;
    for (; std::getline(lines, line); ++count) EXPECT_LE(line.size(), 100U) << one.name << ": " << line;
    EXPECT_LE(count, 45) << one.name;
  }
}

TEST(Explain, llama_3_1_slows_the_pairs_that_its_formula_says) {
  // w_i = 500000^(-i/64); a wavelength below 8192/4 stays, above 8192 is 8x slower, a ramp between.
  std::int64_t untouched = 0;
  std::int64_t slowed = 0;
  std::int64_t less_than_once = 0;
  double slowest = 0;
  for (int i = 0; i < 64; ++i) {
    const double wavelength = 2 * std::numbers::pi * std::pow(500000.0, i / 64.0);
    const double share = (8192 / wavelength - 1) / 3;
    const double factor = wavelength < 2048 ? 1 : wavelength > 8192 ? 8 : 1 / ((1 - share) / 8 + share);
    untouched += factor == 1 ? 1 : 0;
    slowed += factor == 8 ? 1 : 0;
    less_than_once += wavelength * factor > 131072 ? 1 : 0;
    slowest = wavelength * factor;
  }
  const json facts = facts_of(models::llama31())["groups"][0]["rotary_facts"];
  const json& runs = facts["interpolation"];
  ASSERT_EQ(runs.size(), 3U);
  EXPECT_EQ(runs[0]["last_pair"], untouched - 1);
  EXPECT_EQ(runs[1]["first_pair"], untouched);
  EXPECT_EQ(runs[2]["first_pair"], 64 - slowed);
  EXPECT_NEAR(runs[2]["slowed_to"].get<double>(), 8, 8 * kNaive);
  EXPECT_NEAR(facts["slowest_wavelength"].get<double>(), slowest, slowest * kNaive);
  EXPECT_EQ(facts["pairs_slower_than_length"], less_than_once);
  EXPECT_EQ(facts["table_bytes"], 131072 * 128 * 2 * 4);
  EXPECT_EQ(facts["table_bytes_phasor"], 0);
}

/// Slowing of pair i by YaRN, straight from the paper's formula.
double yarn_slowing(double pair, double low, double high, double factor) {
  const double share = std::min(std::max((pair - low) / (high - low), 0.0), 1.0);
  return 1 / (share / factor + 1 - share);
}

TEST(Explain, yarn_without_rounded_ends_is_what_the_formula_says) {
  const auto end = [](double turns) { return 64 * std::log(4096 / (2 * std::numbers::pi * turns)) / (2 * std::log(150000.0)); };
  const json facts = facts_of(models::gpt_oss())["groups"][0]["rotary_facts"];
  const json& runs = facts["interpolation"];
  ASSERT_EQ(runs.size(), 3U);
  EXPECT_EQ(runs[0]["last_pair"], static_cast<int>(std::floor(end(32))));
  EXPECT_EQ(runs[2]["first_pair"], static_cast<int>(std::ceil(end(1))));
  EXPECT_NEAR(runs[1]["slowed_from"].get<double>(), yarn_slowing(9, end(32), end(1), 32), 1e-10);
  EXPECT_NEAR(runs[1]["slowed_to"].get<double>(), yarn_slowing(17, end(32), end(1), 32), 1e-9);
  EXPECT_NEAR(facts["amplitude"].get<double>(), 0.1 * std::log(32.0) + 1, kNaive);
}

TEST(Explain, scores_of_deepseek_v3_carry_the_softmax_factor) {
  const json group = facts_of(models::deepseek_v3())["groups"][0];
  const double gain = 0.1 * std::log(40.0) + 1;
  EXPECT_NEAR(group["score_scale"].get<double>(), gain * gain / std::sqrt(192.0), kNaive);
  EXPECT_NEAR(group["rotary_facts"]["amplitude"].get<double>(), 1, kNaive);
  EXPECT_EQ(group["rotary"]["output_pairing"], "half");
}

/// The first position where a float32 angle's cosine or sine is off by 0.01, by trying them all in double.
std::int64_t naive_limit(const std::vector<double>& frequencies, std::int64_t from) {
  for (std::int64_t m = from;; ++m) {
    for (const double frequency : frequencies) {
      const double truth = static_cast<double>(m) * frequency;
      const double angle = static_cast<float>(m) * static_cast<float>(frequency);
      if (std::abs(std::cos(angle) - std::cos(truth)) >= 0.01 || std::abs(std::sin(angle) - std::sin(truth)) >= 0.01) return m;
    }
  }
}

TEST(Explain, the_position_where_float32_fails_is_the_first_one) {
  for (const RotarySpec& spec : {RotarySpec{.head_dim = 12, .base = 100}, RotarySpec{.head_dim = 6, .base = 3}}) {
    const auto rotary = Rotary::make(spec);
    const auto limit = analysis::float32_limit(rotary->frequencies(), 1);
    ASSERT_TRUE(limit.position.has_value());
    EXPECT_EQ(*limit.position, naive_limit(rotary->frequencies(), 1));
  }
}

TEST(Explain, llama_3_1_loses_a_hundredth_at_the_position_it_says) {
  const auto rotary = Rotary::make(*models::llama31().layers[0].rotary);
  const std::int64_t said = facts_of(models::llama31())["groups"][0]["rotary_facts"]["float32_angles"]["position"];
  EXPECT_EQ(naive_limit(rotary->frequencies(), said - 3000), said);
  EXPECT_GE(angle_error(*rotary, said)->float32, 0.01);
  EXPECT_LT(angle_error(*rotary, said - 1)->float32, 0.01);
}

TEST(Explain, the_float32_limit_knows_its_ends) {
  EXPECT_EQ(analysis::float32_limit({0x1.8p40 + 1}, 1).position, 1);      // a float32 frequency is whole radians off
  EXPECT_EQ(analysis::float32_limit({1}, 1).position, (1 << 24) + 1);     // exact until the position itself is no float32
  EXPECT_FALSE(analysis::float32_limit({0, 0}, 1).position.has_value());  // never turns
  EXPECT_FALSE(analysis::float32_limit({1}, 1e-3).position.has_value());  // an amplitude too small to err by that much
  const auto slow = analysis::float32_limit({0x1.234567p-40}, 1);
  EXPECT_FALSE(slow.position.has_value());
  EXPECT_GT(slow.good_below, std::int64_t{1} << 50);
}

TEST(Explain, json_has_every_layer_once) {
  for (const Named& one : all_models()) {
    const json facts = facts_of(one.model);
    std::vector<int> seen(one.model.layers.size(), 0);
    for (const json& group : facts["groups"]) {
      for (const std::size_t layer : group["layers"]) ++seen.at(layer);
    }
    for (const int times : seen) EXPECT_EQ(times, 1) << one.name;
    EXPECT_EQ(facts["towers"].size(), one.model.towers.size());
  }
}

TEST(Explain, json_says_null_where_nothing_is_known) {
  const json gemma = facts_of(models::gemma3());
  EXPECT_TRUE(gemma["trained_length"].is_null());
  EXPECT_EQ(gemma["length"], 131072);
  ModelPositions still = models::of("", 1, models::rotary_layer({.head_dim = 16, .scaling = ProportionalScaling{.share = 0.5}}));
  const json facts = facts_of(still)["groups"][0]["rotary_facts"];
  EXPECT_EQ(facts["still_pairs"], 4);
  EXPECT_TRUE(facts["interpolation"][1]["slowed_to"].is_null());
  EXPECT_TRUE(facts["table_bytes"].is_null());
}

TEST(Explain, interleaved_axes_are_told_pair_by_pair) {
  const RotarySpec spec{.head_dim = 128, .base = 5000000, .axes = {.sections = {24, 20, 20}, .order = AxisOrder::interleaved}};
  const auto axes = analysis::axes_of_pairs(spec);
  // Qwen3-VL: height where k % 3 = 1 and k < 60, width where k % 3 = 2 and k < 60, else time.
  for (std::int64_t k = 0; k < 64; ++k) EXPECT_EQ(axes[static_cast<std::size_t>(k)], k < 60 ? k % 3 : 0) << k;
  const RotarySpec ernie{.head_dim = 128, .axes = {.sections = {20, 22, 22}, .order = AxisOrder::alternating}};
  const auto alternating = analysis::axes_of_pairs(ernie);
  for (std::int64_t k = 0; k < 64; ++k) EXPECT_EQ(alternating[static_cast<std::size_t>(k)], k < 44 ? 1 + k % 2 : 0) << k;
}

TEST(Explain, a_ragged_list_of_factors_is_one_range) {
  LongRopeScaling scaling{.original_length = 4096, .factor = 32, .attention_factor = {}, .length = 131072};
  for (int i = 0; i < 48; ++i) {
    scaling.short_factors.push_back(1 + 0.01 * (i % 5));
    scaling.long_factors.push_back(1 + (i * 7 % 11));
  }
  const json runs = facts_of(
      models::of("phi3", 2, models::rotary_layer({.head_dim = 96, .scaling = scaling})))["groups"][0]["rotary_facts"]["interpolation"];
  ASSERT_EQ(runs.size(), 1U);
  EXPECT_NEAR(runs[0]["slowed_from"].get<double>(), 1, kNaive);
  EXPECT_NEAR(runs[0]["slowed_to"].get<double>(), 11, 11 * kNaive);
}

TEST(Explain, a_spec_that_does_not_fit_is_an_error_with_its_layers) {
  ModelPositions model = models::llama31();
  model.layers[7].rotary->head_dim = 127;
  for (const auto& text : {explain(model), explain_json(model)}) {
    ASSERT_FALSE(text.ok());
    EXPECT_NE(text.status().message().find("layer 7: RotarySpec: head_dim is 127, wanted an even number"), std::string::npos)
        << text.status().message();
  }
}

TEST(Explain, names_out_of_a_file_need_not_be_utf8) {
  ModelPositions model = models::bert();
  model.model_type = "b\xff\xfe\"rt";
  model.warnings = {"rope_scaling: unknown key \xc3("};
  EXPECT_TRUE(json::accept(*explain_json(model)));
  EXPECT_TRUE(explain(model).ok());
}

TEST(Explain, a_name_cannot_steer_the_terminal) {
  ModelPositions model = models::bert();
  model.model_type = "bert\x1b[2J";
  model.warnings = {"a\nb"};
  const std::string text = *explain(model);
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  EXPECT_NE(text.find("Warning: a?b\n"), std::string::npos);
  EXPECT_EQ(found_name(model), "bert?[2J");
}

TEST(Explain, one_layer_can_be_asked_for) {
  const auto text = explain(models::gemma3(), {.layer = 5});
  ASSERT_TRUE(text.ok());
  EXPECT_NE(text->find("\nLayer 5, full_attention: rotary\n"), std::string::npos);
  EXPECT_EQ(text->find("sliding"), std::string::npos);
  const json facts = json::parse(*explain_json(models::qwen2_vl(), {.layer = 27}));
  EXPECT_EQ(facts["groups"].size(), 1U);
  EXPECT_EQ(facts["groups"][0]["layers"], json({27}));
  EXPECT_EQ(facts["towers"].size(), 0U);
  for (const std::int64_t layer : {-1, 34}) {
    EXPECT_EQ(explain(models::gemma3(), {.layer = layer}).status().message(),
              "explain: layer is " + std::to_string(layer) + ", the model has 34 layers");
  }
}

TEST(Explain, an_empty_model_is_told_too) {
  EXPECT_EQ(*explain(ModelPositions{}), "A model (file): 0 layers. The file does not say how many positions it was trained for.\n");
  EXPECT_EQ(facts_of(ModelPositions{})["groups"].size(), 0U);
}

}  // namespace
}  // namespace phasor::test
