// SPDX-License-Identifier: Apache-2.0
// Positions against those that tools/record/record_positions.py recorded from transformers: every id equal.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "golden_file.hpp"
#include "phasor/position_builders.hpp"
#include "phasor/positions.hpp"

namespace phasor::test {
namespace {

using Json = nlohmann::json;
using Ids = std::vector<std::int64_t>;

Json golden(const char* name) {
  std::ifstream file(golden_file(name));
  EXPECT_TRUE(file.is_open()) << name;
  return Json::parse(file);
}

Ids flat(const Json& rows) {
  Ids out;
  for (const Json& row : rows) {
    for (const Json& value : row) out.push_back(value.get<std::int64_t>());
  }
  return out;
}

std::vector<ImageGrid> grids_of(const Json& list) {
  std::vector<ImageGrid> out;
  for (const Json& g : list) out.push_back({g[0], g[1], g[2]});
  return out;
}

MropeModel model_of(const std::string& name) {
  const char* names[] = {"qwen2_vl", "qwen2_5_vl", "qwen3_vl", "glm4v", "ernie4_5_vl", "qwen2_5_omni", "qwen3_omni"};
  for (int i = 0; i < 7; ++i) {
    if (name == names[i]) return static_cast<MropeModel>(i);
  }
  ADD_FAILURE() << name;
  return MropeModel::qwen2_vl;
}

MropeTokens tokens_of(const Json& t) {
  return {.image = t["image"],
          .video = t["video"],
          .audio = t["audio"],
          .vision_start = t["vision_start"],
          .audio_start = t["audio_start"],
          .video_start = t["video_start"],
          .video_end = t["video_end"]};
}

/// A recorded case with the memory its input points to.
struct Recorded {
  Ids ids, types, mask, audio;
  std::vector<ImageGrid> images, videos;
  std::vector<float> seconds;
  MropeInput input;
  std::int64_t batch = 0, tokens = 0;

  Recorded(const Json& c, const MropeTokens& special) : ids(flat(c["ids"])), types(flat(c["types"])), mask(flat(c["mask"])) {
    audio = c["audio"].get<Ids>();
    images = grids_of(c["images"]);
    videos = grids_of(c["videos"]);
    seconds = c["seconds"].get<std::vector<float>>();
    batch = static_cast<std::int64_t>(c["ids"].size());
    tokens = static_cast<std::int64_t>(c["ids"][0].size());
    input.model = model_of(c["model"]);
    input.attention_mask = mask;
    input.images = images;
    input.videos = videos;
    input.seconds_per_grid = seconds;
    input.audio_lengths = audio;
    input.use_audio_in_video = c["in_video"];
    input.tokens = special;
    input.merge = c["merge"];
    input.tokens_per_second = c.value("tokens_per_second", 2.0);
    input.position_id_per_seconds = c.value("rate", 25.0);
  }
};

void check_case(const Recorded& r, const MropeInput& input, const Json& c) {
  const std::vector<double> wanted = c["positions"].get<std::vector<double>>();
  std::vector<double> out(wanted.size(), -77);
  std::vector<double> deltas(static_cast<std::size_t>(r.batch));
  const Status status = fill_mrope(positions(out.data(), 3, r.batch, r.tokens), deltas, input);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(out, wanted);
  EXPECT_EQ(deltas, c["deltas"].get<std::vector<double>>());
}

TEST(MropeIds, are_those_of_transformers_for_every_recorded_input) {
  const Json file = golden("mrope_ids.json");
  ASSERT_GE(file["cases"].size(), 41U);
  int index = 0;
  for (const Json& c : file["cases"]) {
    SCOPED_TRACE(std::to_string(index++) + " " + c["model"].get<std::string>());
    const Recorded r(c, tokens_of(file["tokens"]));
    MropeInput by_ids = r.input;
    by_ids.input_ids = r.ids;
    check_case(r, by_ids, c);
    if (by_ids.model >= MropeModel::qwen2_5_omni) continue;
    MropeInput by_types = r.input;
    by_types.token_types = r.types;
    check_case(r, by_types, c);
  }
}

TEST(MropeIds, go_into_int32_with_any_strides_when_they_are_whole_and_are_refused_when_not) {
  const Json file = golden("mrope_ids.json");
  int whole = 0;
  int fractions = 0;
  for (const Json& c : file["cases"]) {
    const Recorded r(c, tokens_of(file["tokens"]));
    MropeInput input = r.input;
    input.input_ids = r.ids;
    const auto wanted = c["positions"].get<std::vector<double>>();
    std::vector<std::int32_t> out(wanted.size(), -77);
    PositionsView view = positions(out.data(), 3, r.batch, r.tokens);
    view.strides = {1, 3, 3 * r.batch};  // axes fastest, tokens slowest
    const Status status = fill_mrope(view, {}, input);
    bool all_whole = true;
    for (const double v : wanted) all_whole = all_whole && v == std::floor(v);
    ASSERT_EQ(status.ok(), all_whole) << status.message();
    (all_whole ? whole : fractions) += 1;
    for (std::int64_t i = 0; i < static_cast<std::int64_t>(wanted.size()); ++i) {
      const std::int64_t axis = i / (r.batch * r.tokens);
      const std::int64_t b = i / r.tokens % r.batch;
      const std::int32_t value = out[static_cast<std::size_t>(axis + 3 * b + 3 * r.batch * (i % r.tokens))];
      ASSERT_EQ(value, all_whole ? static_cast<std::int32_t>(wanted[static_cast<std::size_t>(i)]) : -77);
    }
  }
  EXPECT_GT(whole, 20);
  EXPECT_GT(fractions, 0);
}

Ids from_mask(const Ids& values, const AttentionMask& rest, const MaskRule& rule, std::int64_t tokens = 7) {
  Ids out(static_cast<std::size_t>(5 * tokens), -77);
  AttentionMask mask = rest;
  mask.values = values;
  const Status status = fill_from_mask(positions(out.data(), 5, tokens), mask, rule);
  EXPECT_TRUE(status.ok()) << status.message();
  return out;
}

TEST(MaskedPositions, are_those_of_generate_bloom_opt_and_roberta) {
  const Json m = golden("position_ids.json")["masks"];
  const Ids mask = m["mask"].get<Ids>();
  EXPECT_EQ(from_mask(mask, {}, {}), m["generate"].get<Ids>());
  EXPECT_EQ(from_mask(mask, {}, {.first = 0, .masked = 0}), m["bloom"].get<Ids>());
  EXPECT_EQ(from_mask(mask, {}, {.first = 2, .masked = 1}), m["opt_rows"].get<Ids>());
  EXPECT_EQ(from_mask(mask, {.past = 3}, {.first = 2, .masked = 1}, 4), m["opt_rows_after_3"].get<Ids>());
  EXPECT_EQ(from_mask(m["roberta_ids"].get<Ids>(), {.pad = 1}, roberta_rule(1)), m["roberta"].get<Ids>());
  EXPECT_EQ(from_mask(m["roberta_ids"].get<Ids>(), {.pad = 1}, {.first = 7, .masked = 1}), m["roberta_after_5"].get<Ids>());
}

Ids from_grids(const std::vector<ImageGrid>& grids, const GridLayout& layout, std::int64_t axes, std::size_t size) {
  Ids out(size, -77);
  const Status status = fill_from_grids(positions(out.data(), axes, 1, static_cast<std::int64_t>(size) / axes), grids, layout);
  EXPECT_TRUE(status.ok()) << status.message();
  return out;
}

TEST(GridPositions, are_those_of_the_vision_towers) {
  const Json g = golden("position_ids.json")["grids"];
  const std::vector<ImageGrid> two = {{2, 4, 6}, {1, 2, 2}};
  const GridAxis frame_row_column[] = {GridAxis::frame, GridAxis::row, GridAxis::column};
  const GridAxis column_row[] = {GridAxis::column, GridAxis::row};
  EXPECT_EQ(from_grids(two, {.merge = 2}, 2, 104), g["qwen_merge_2"].get<Ids>());
  EXPECT_EQ(from_grids(two, {.axes = frame_row_column, .merge = 2}, 3, 156), g["qwen_merge_2_with_frames"].get<Ids>());
  EXPECT_EQ(from_grids(two, {}, 2, 104), g["qwen_merge_1"].get<Ids>());
  EXPECT_EQ(from_grids({{1, 3, 5}, {1, 8, 2}}, {}, 2, 62), g["pixtral"].get<Ids>());
  EXPECT_EQ(from_grids({{1, 3, 3}}, {.axes = column_row, .first = 1, .suffix = 1}, 2, 20), g["llama4"].get<Ids>());
  EXPECT_EQ(from_grids({{1, 4, 3}}, {.axes = column_row}, 2, 24), g["sam2_3_columns_4_rows"].get<Ids>());
  const Ids patches = g["vjepa2_ids"].get<Ids>();
  Ids out(30, -77);
  ASSERT_TRUE(fill_from_patches(positions(out.data(), 3, 2, 5), patches, {3, 3, 3}, {.axes = frame_row_column}).ok());
  EXPECT_EQ(out, g["vjepa2"].get<Ids>());
}

TEST(GridPositions, of_patch_centres_are_the_nearest_doubles_and_within_their_last_rounding_of_dinov3) {
  const auto recorded = golden("position_ids.json")["grids"]["dinov3_3_rows_7_columns"].get<std::vector<double>>();
  std::vector<double> out(52, -77);
  const ImageGrid grid[] = {{1, 3, 7}};
  ASSERT_TRUE(fill_from_grids(positions(out.data(), 2, 1, 26), grid, {.unit = GridUnit::centre, .prefix = 5}).ok());
  for (std::size_t axis = 0; axis < 2; ++axis) {
    for (std::size_t t = 0; t < 26; ++t) {
      const double value = out[axis * 26 + t];
      if (t < 5) {
        EXPECT_EQ(value, 0);
        continue;
      }
      const std::size_t i = axis == 0 ? (t - 5) / 7 : (t - 5) % 7;
      const long double n = axis == 0 ? 3 : 7;
      EXPECT_EQ(value, static_cast<double>((2 * static_cast<long double>(i) + 1 - n) / n));
      EXPECT_LE(std::fabs(value - recorded[axis * 21 + t - 5]), 0x1p-53) << "a quotient below 1 rounded once, doubled";
    }
  }
}

/// float32 steps between two positive floats.
std::int32_t steps(float a, float b) {
  std::int32_t x = 0;
  std::int32_t y = 0;
  std::memcpy(&x, &a, 4);
  std::memcpy(&y, &b, 4);
  return x < y ? y - x : x - y;
}

TEST(Temperatures, are_those_of_llama_4_and_ministral_3_but_for_the_peers_own_roundings) {
  const Json t = golden("position_ids.json")["temperatures"];
  const Ids at = t["positions"].get<Ids>();
  const auto llama = t["llama4"].get<std::vector<float>>();
  const auto ministral = t["ministral3_length_16384"].get<std::vector<float>>();
  std::vector<float> out(at.size());
  const auto count = static_cast<std::int64_t>(at.size());
  const auto check = [&](const QueryTemperature& temperature, const std::vector<float>& wanted) {
    ASSERT_TRUE(fill_temperature(out, temperature, positions(at.data(), count)).ok());
    for (std::size_t i = 0; i < out.size(); ++i) {
      // The peer rounds the logarithm, its product and the sum to float32: below 1 ulp of a number in [1, 2).
      EXPECT_LE(steps(out[i], wanted[i]), 1) << at[i];
      const bool next_step = i > 0 && at[i] == at[i - 1] + 1 && wanted[i] != wanted[i - 1];
      EXPECT_EQ(next_step, i > 0 && at[i] == at[i - 1] + 1 && out[i] != out[i - 1]) << at[i];
    }
  };
  check({.kind = QueryTemperature::Kind::floored_log, .scale = 0.1, .length = 8192, .shift = 1}, llama);
  check({.kind = QueryTemperature::Kind::floored_log, .scale = 0.1, .length = 16384, .shift = 0}, ministral);
}

}  // namespace
}  // namespace phasor::test
