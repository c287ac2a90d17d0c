// SPDX-License-Identifier: Apache-2.0
// Positions of images and videos in C: grids and patches as in C++, M-RoPE ids as recorded from transformers.
#include <fstream>
#include <nlohmann/json.hpp>

#include "c/support.hpp"
#include "golden_file.hpp"
#include "phasor/phasor.h"
#include "phasor/position_builders.hpp"

namespace phasor::test {
namespace {

using Json = nlohmann::json;
using Ids = std::vector<std::int64_t>;

phasor_grid_layout layout_of() {
  phasor_grid_layout layout = {};
  layout.size = sizeof layout;
  return layout;
}

TEST(CGrids, are_those_of_cpp_with_every_option) {
  const phasor_image_grid grids[] = {{0, 4, 6}, {2, 2, 4}};
  const ImageGrid same[] = {{1, 4, 6}, {2, 2, 4}};
  const CTensor<std::int64_t> out({2, 1, 40});
  Ids want(80);
  succeeds([&](phasor_error* error) { return phasor_fill_from_grids(out.get(), grids, 2, nullptr, error); });
  ASSERT_TRUE(fill_from_grids(positions(want.data(), 2, 1, 40), same).ok());
  EXPECT_EQ(out.values, want);

  const phasor_grid_axis axes[] = {PHASOR_GRID_COLUMN, PHASOR_GRID_FRAME, PHASOR_GRID_ROW};
  const GridAxis same_axes[] = {GridAxis::column, GridAxis::frame, GridAxis::row};
  phasor_grid_layout layout = layout_of();
  layout.axes = axes;
  layout.axis_count = 3;
  layout.merge = 2;
  layout.first = 1;
  layout.prefix = 2;
  layout.suffix = 1;
  layout.outside = -9;
  const CTensor<std::int64_t> everything({3, 1, 46});
  want.assign(138, 0);
  ASSERT_TRUE(fill_from_grids(positions(want.data(), 3, 1, 46), same,
                              {.axes = same_axes, .merge = 2, .first = 1, .prefix = 2, .suffix = 1, .outside = -9})
                  .ok());
  succeeds([&](phasor_error* error) { return phasor_fill_from_grids(everything.get(), grids, 2, &layout, error); });
  EXPECT_EQ(everything.values, want);

  phasor_grid_layout centres = layout_of();
  centres.unit = PHASOR_GRID_CENTRE;
  const CTensor<double> centred({2, 1, 40});
  std::vector<double> want_centres(80);
  ASSERT_TRUE(fill_from_grids(positions(want_centres.data(), 2, 1, 40), same, {.unit = GridUnit::centre}).ok());
  succeeds([&](phasor_error* error) { return phasor_fill_from_grids(centred.get(), grids, 2, &centres, error); });
  EXPECT_EQ(centred.values, want_centres);
}

TEST(CGrids, patches_are_those_of_cpp) {
  const phasor_image_grid grid = {3, 4, 5};
  const CTensor<std::int32_t> patches({2, 3}, {59, 0, 23, 7, 41, 12});
  const phasor_grid_axis axes[] = {PHASOR_GRID_FRAME, PHASOR_GRID_ROW, PHASOR_GRID_COLUMN};
  const GridAxis same_axes[] = {GridAxis::frame, GridAxis::row, GridAxis::column};
  phasor_grid_layout layout = layout_of();
  layout.axes = axes;
  layout.axis_count = 3;
  const CTensor<std::int32_t> out({3, 2, 3});
  std::vector<std::int32_t> want(18);
  ASSERT_TRUE(fill_from_patches(positions(want.data(), 3, 2, 3), patches.values, {3, 4, 5}, {.axes = same_axes}).ok());
  succeeds([&](phasor_error* error) { return phasor_fill_from_patches(out.get(), patches.get(), &grid, &layout, error); });
  EXPECT_EQ(out.values, want);
}

TEST(CGrids, bad_arguments_are_refused_and_nothing_is_written) {
  const phasor_image_grid grid = {1, 2, 3};
  const CTensor<std::int64_t> out({2, 1, 6});
  const CTensor<std::int64_t> patches({6});
  phasor_grid_layout layout = layout_of();
  const auto fill = [&](std::size_t count, const phasor_image_grid* grids) {
    return failure(PHASOR_INVALID, [&](phasor_error* error) { return phasor_fill_from_grids(out.get(), grids, count, &layout, error); });
  };
  EXPECT_EQ(fill(1, nullptr), "fill_from_grids: grids is null and has 1 elements, wanted their memory");
  const phasor_grid_axis axes[] = {PHASOR_GRID_ROW, 3};
  layout.axes = axes;
  layout.axis_count = 2;
  EXPECT_EQ(fill(1, &grid), "fill_from_grids: an axis of the layout is 3, wanted 0 to 2");
  layout.axes = nullptr;
  EXPECT_EQ(fill(1, &grid), "fill_from_grids: axes of the layout is null and has 2 elements, wanted their memory");
  layout = layout_of();
  layout.unit = 2;
  EXPECT_EQ(fill(1, &grid), "fill_from_grids: unit is 2, wanted 0 to 1");
  layout.size = 1;
  EXPECT_EQ(fill(1, &grid),
            "fill_from_grids: the size of the layout is 1, wanted its sizeof, " + std::to_string(sizeof layout) + " in this version");
  EXPECT_EQ(failure(PHASOR_INVALID,
                    [&](phasor_error* error) { return phasor_fill_from_patches(out.get(), patches.get(), nullptr, nullptr, error); }),
            "fill_from_patches: grid is null, wanted one");
  EXPECT_EQ(out.values, Ids(12));
}

// ---- M-RoPE ----

Ids flat(const Json& rows) {
  Ids out;
  for (const Json& row : rows) {
    for (const Json& value : row) out.push_back(value.get<std::int64_t>());
  }
  return out;
}

std::vector<phasor_image_grid> grids_of(const Json& list) {
  std::vector<phasor_image_grid> out;
  for (const Json& g : list) out.push_back({g[0], g[1], g[2]});
  return out;
}

phasor_mrope_tokens tokens_of(const Json& t) {
  return {sizeof(phasor_mrope_tokens),
          t["image"],
          t["video"],
          t["audio"],
          t["vision_start"],
          t["audio_start"],
          t["video_start"],
          t["video_end"],
          1,
          1,
          1,
          1,
          1,
          1,
          1,
          0};
}

phasor_mrope_model model_of(const std::string& name) {
  const char* names[] = {"qwen2_vl", "qwen2_5_vl", "qwen3_vl", "glm4v", "ernie4_5_vl", "qwen2_5_omni", "qwen3_omni"};
  for (phasor_mrope_model i = 0; i < 7; ++i) {
    if (name == names[i]) return i;
  }
  ADD_FAILURE() << name;
  return -1;
}

/// A recorded case through the C API, by ids or by types.
void check_case(const Json& c, const phasor_mrope_tokens& tokens, bool by_ids) {
  const Ids shape = {static_cast<std::int64_t>(c["ids"].size()), static_cast<std::int64_t>(c["ids"][0].size())};
  const CTensor<std::int64_t> ids(shape, flat(c[by_ids ? "ids" : "types"]));
  const Ids mask_values = flat(c["mask"]);
  const CTensor<std::int64_t> mask(mask_values.empty() ? Ids{0} : shape, mask_values);
  const Ids audio_values = c["audio"].get<Ids>();
  const CTensor<std::int64_t> audio({static_cast<std::int64_t>(audio_values.size())}, audio_values);
  const std::vector<phasor_image_grid> images = grids_of(c["images"]);
  const std::vector<phasor_image_grid> videos = grids_of(c["videos"]);
  const auto seconds = c["seconds"].get<std::vector<float>>();
  phasor_mrope_input input = {};
  input.size = sizeof input;
  input.model = model_of(c["model"]);
  input.use_audio_in_video = c["in_video"].get<bool>() ? 1 : 0;
  (by_ids ? input.input_ids : input.token_types) = ids.get();
  input.attention_mask = mask_values.empty() ? nullptr : mask.get();
  input.images = images.data();
  input.image_count = images.size();
  input.videos = videos.data();
  input.video_count = videos.size();
  input.seconds_per_grid = seconds.data();
  input.seconds_per_grid_count = seconds.size();
  input.audio_lengths = audio.get();
  input.tokens = &tokens;
  input.merge = c["merge"];
  input.tokens_per_second = c.value("tokens_per_second", 0.0);
  input.position_id_per_seconds = c.value("rate", 0.0);
  const CTensor<double> out({3, shape[0], shape[1]});
  std::vector<double> deltas(static_cast<std::size_t>(shape[0]));
  succeeds([&](phasor_error* error) { return phasor_fill_mrope(out.get(), deltas.data(), deltas.size(), &input, error); });
  EXPECT_EQ(out.values, c["positions"].get<std::vector<double>>());
  EXPECT_EQ(deltas, c["deltas"].get<std::vector<double>>());
}

TEST(CMrope, ids_are_those_of_transformers_for_every_recorded_input) {
  std::ifstream file(golden_file("mrope_ids.json"));
  ASSERT_TRUE(file.is_open());
  const Json golden = Json::parse(file);
  ASSERT_GE(golden["cases"].size(), 41U);
  for (const Json& c : golden["cases"]) {
    SCOPED_TRACE(c["model"].get<std::string>());
    check_case(c, tokens_of(golden["tokens"]), true);
    if (model_of(c["model"]) < PHASOR_MROPE_QWEN2_5_OMNI) check_case(c, tokens_of(golden["tokens"]), false);
  }
}

constexpr std::int64_t kStart = 21, kAudioStart = 22, kEnd = 23;

/// One row that begins a video with its audio: start tokens, so many of 0 (the video's token) and of 5 (the audio's), end tokens.
Ids video_with_audio(std::size_t videos, std::size_t audios) {
  Ids ids = {3, kStart, kAudioStart};
  ids.insert(ids.end(), videos, 0);
  ids.insert(ids.end(), audios, 5);
  ids.insert(ids.end(), {kEnd, kEnd, 4});
  return ids;
}

/// What the recorded cases leave at its default, and token id 0, against C++.
void expect_omni(MropeModel model, const Ids& ids, const std::vector<std::int32_t>& audio_lengths) {
  const auto n = static_cast<std::int64_t>(ids.size());
  const CTensor<std::int64_t> input_ids({1, n}, ids);
  const CTensor<std::int32_t> audio({1}, audio_lengths);
  const phasor_image_grid video = {4, 2, 2};
  const ImageGrid same_video = {4, 2, 2};
  phasor_mrope_input input = {};
  input.size = sizeof input;
  input.model = static_cast<phasor_mrope_model>(model);
  input.use_audio_in_video = 1;
  input.input_ids = input_ids.get();
  input.videos = &video;
  input.video_count = 1;
  input.audio_lengths = audio.get();
  phasor_mrope_tokens tokens = {};
  tokens.size = sizeof tokens;
  tokens.has_video = 1;
  tokens.has_audio = 1;
  tokens.audio = 5;
  tokens.has_vision_start = 1;
  tokens.vision_start = kStart;
  tokens.has_audio_start = 1;
  tokens.audio_start = kAudioStart;
  input.tokens = &tokens;
  input.merge = 1;
  input.position_id_per_seconds = 3;
  input.seconds_per_chunk = 0.75;
  input.audio_window = 40;
  MropeInput same = {.model = model,
                     .input_ids = ids,
                     .videos = {&same_video, 1},
                     .audio_lengths = audio_lengths,
                     .use_audio_in_video = true,
                     .tokens = {.video = 0, .audio = 5, .vision_start = kStart, .audio_start = kAudioStart},
                     .merge = 1,
                     .position_id_per_seconds = 3,
                     .seconds_per_chunk = 0.75,
                     .audio_window = 40};
  std::vector<double> want(static_cast<std::size_t>(3 * n));
  double want_delta = 0;
  const Status status = fill_mrope(positions(want.data(), 3, 1, n), {&want_delta, 1}, same);
  ASSERT_TRUE(status.ok()) << status.message();
  const CTensor<double> out({3, 1, n});
  double delta = -1;
  succeeds([&](phasor_error* error) { return phasor_fill_mrope(out.get(), &delta, 1, &input, error); });
  EXPECT_EQ(out.values, want);
  EXPECT_EQ(delta, want_delta);
  same.seconds_per_chunk = 2;
  same.audio_window = 50;
  std::vector<double> by_default(want.size());
  const bool fits = fill_mrope(positions(by_default.data(), 3, 1, n), {}, same).ok();
  EXPECT_TRUE(!fits || by_default != want) << "chunk and window would not be seen";
}

TEST(CMrope, chunks_windows_and_a_token_of_id_0_are_passed_on) {
  expect_omni(MropeModel::qwen2_5_omni, video_with_audio(16, 5), {20});
  expect_omni(MropeModel::qwen3_omni, video_with_audio(16, 26), {160});  // two windows of 2 * 40 make 13 tokens each
}

TEST(CMrope, temporal_merge_and_deltas_that_are_not_wanted) {
  const CTensor<std::int32_t> types({1, 5}, {0, 2, 2, 2, 0});
  const phasor_image_grid video = {9, 2, 2};
  phasor_mrope_input input = {};
  input.size = sizeof input;
  input.model = PHASOR_MROPE_ERNIE4_5_VL;
  input.token_types = types.get();
  input.videos = &video;
  input.video_count = 1;
  input.temporal_merge = 3;
  const CTensor<std::int32_t> out({3, 1, 5});
  succeeds([&](phasor_error* error) { return phasor_fill_mrope(out.get(), nullptr, 0, &input, error); });
  const ImageGrid same_video = {9, 2, 2};
  std::vector<std::int32_t> want(15);
  ASSERT_TRUE(fill_mrope(positions(want.data(), 3, 1, 5), {},
                         {.model = MropeModel::ernie4_5_vl, .token_types = types.values, .videos = {&same_video, 1}, .temporal_merge = 3})
                  .ok());
  EXPECT_EQ(out.values, want);

  const std::vector<std::int32_t> before = out.values;
  const auto fill = [&](double* deltas, std::size_t count) {
    return failure(PHASOR_INVALID, [&](phasor_error* error) { return phasor_fill_mrope(out.get(), deltas, count, &input, error); });
  };
  EXPECT_EQ(fill(nullptr, 1), "fill_mrope: deltas is null and has 1 elements, wanted their memory");
  phasor_mrope_tokens tokens = {};
  tokens.size = sizeof tokens;
  input.tokens = &tokens;
  tokens.video = 4;
  EXPECT_EQ(fill(nullptr, 0), "fill_mrope: video is given and has_video is 0, wanted 1");
  tokens.has_video = 2;
  EXPECT_EQ(fill(nullptr, 0), "fill_mrope: has_video is 2, wanted 0 or 1");
  tokens = {};
  EXPECT_EQ(fill(nullptr, 0),
            "fill_mrope: the size of the tokens is 0, wanted its sizeof, " + std::to_string(sizeof tokens) + " in this version");
  tokens.size = sizeof tokens;
  tokens.reserved = 1;
  EXPECT_EQ(fill(nullptr, 0), "fill_mrope: `reserved` of the tokens is 1, wanted 0");
  input.tokens = nullptr;
  input.model = 7;
  EXPECT_EQ(fill(nullptr, 0), "fill_mrope: model is 7, wanted 0 to 6");
  input.model = 0;
  input.seconds_per_grid_count = 1;
  EXPECT_EQ(fill(nullptr, 0), "fill_mrope: seconds_per_grid is null and has 1 elements, wanted their memory");
  input.seconds_per_grid_count = 0;
  input.image_count = 1;
  EXPECT_EQ(fill(nullptr, 0), "fill_mrope: images is null and has 1 elements, wanted their memory");
  EXPECT_EQ(out.values, before);
}

}  // namespace
}  // namespace phasor::test
