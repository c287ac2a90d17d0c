// SPDX-License-Identifier: Apache-2.0
// Positions of images and videos in C: grids, patches, M-RoPE.
#include <vector>

#include "core/call.hpp"
#include "core/fields.hpp"
#include "core/lists.hpp"
#include "core/tensor.hpp"
#include "phasor/c/positions.h"
#include "phasor/position_builders.hpp"

namespace {

using namespace phasor;
using namespace phasor::c;

constexpr int kGridAxes = 3;
constexpr int kMropeModels = 7;
static_assert(static_cast<int>(MropeModel::qwen3_omni) == PHASOR_MROPE_QWEN3_OMNI);

ImageGrid grid_of(phasor_image_grid c) {
  ImageGrid grid{.rows = c.rows, .columns = c.columns};
  if (c.frames != 0) grid.frames = c.frames;
  return grid;
}

std::vector<ImageGrid> grids_of(const char* where, const char* name, const phasor_image_grid* grids, std::size_t count) {
  std::vector<ImageGrid> list;
  for (const phasor_image_grid& grid : span_of(where, name, grids, count)) list.push_back(grid_of(grid));
  return list;
}

/// A layout and the list that it points to.
struct OwnedLayout {
  GridLayout value;
  std::vector<GridAxis> axes;
};

OwnedLayout grid_layout_of(const char* where, const phasor_grid_layout* layout) {
  phasor_grid_layout c = known(where, "the layout", layout);
  OwnedLayout owned;
  const Read way(where);
  for (const phasor_grid_axis axis : span_of(where, "axes of the layout", c.axes, c.axis_count)) {
    owned.axes.push_back(choice_of<GridAxis>(where, "an axis of the layout", axis, kGridAxes));
  }
  way("merge", c.merge, owned.value.merge);
  way("first", c.first, owned.value.first);
  way("prefix", c.prefix, owned.value.prefix);
  way("suffix", c.suffix, owned.value.suffix);
  way("outside", c.outside, owned.value.outside);
  way.choice("unit", c.unit, owned.value.unit, 2);
  owned.value.axes = owned.axes;  // of the heap: stays where it is when the struct moves
  return owned;
}

MropeTokens tokens_of(const char* where, const phasor_mrope_tokens* given) {
  phasor_mrope_tokens c = known(where, "the tokens", given);
  MropeTokens tokens;
  const Read way(where);
  way.flagged("image", c.has_image, c.image, tokens.image);
  way.flagged("video", c.has_video, c.video, tokens.video);
  way.flagged("audio", c.has_audio, c.audio, tokens.audio);
  way.flagged("vision_start", c.has_vision_start, c.vision_start, tokens.vision_start);
  way.flagged("audio_start", c.has_audio_start, c.audio_start, tokens.audio_start);
  way.flagged("video_start", c.has_video_start, c.video_start, tokens.video_start);
  way.flagged("video_end", c.has_video_end, c.video_end, tokens.video_end);
  return tokens;
}

/// All but the lists of grids and seconds.
MropeInput input_of(const char* where, phasor_mrope_input& c) {
  MropeInput input;
  const Read way(where);
  way.choice("model", c.model, input.model, kMropeModels);
  way("use_audio_in_video", c.use_audio_in_video, input.use_audio_in_video);
  input.input_ids = integers_of(where, "input_ids", c.input_ids);
  input.token_types = integers_of(where, "token_types", c.token_types);
  input.attention_mask = integers_of(where, "attention_mask", c.attention_mask);
  input.audio_lengths = integers_of(where, "audio_lengths", c.audio_lengths);
  input.tokens = tokens_of(where, c.tokens);
  way("merge", c.merge, input.merge);
  way("temporal_merge", c.temporal_merge, input.temporal_merge);
  way("tokens_per_second", c.tokens_per_second, input.tokens_per_second);
  way("position_id_per_seconds", c.position_id_per_seconds, input.position_id_per_seconds);
  way("seconds_per_chunk", c.seconds_per_chunk, input.seconds_per_chunk);
  way("audio_window", c.audio_window, input.audio_window);
  return input;
}

}  // namespace

extern "C" {

phasor_status phasor_fill_from_grids(const phasor_tensor* out, const phasor_image_grid* grids, size_t count,
                                     const phasor_grid_layout* layout, phasor_error* error) {
  constexpr const char* kWhere = "fill_from_grids";
  return call(error, [&] {
    const PositionsView to = positions_view_of(kWhere, "out", out);
    const std::vector<ImageGrid> of = grids_of(kWhere, "grids", grids, count);
    must(fill_from_grids(to, of, grid_layout_of(kWhere, layout).value));
  });
}

phasor_status phasor_fill_from_patches(const phasor_tensor* out, const phasor_tensor* patches, const phasor_image_grid* grid,
                                       const phasor_grid_layout* layout, phasor_error* error) {
  constexpr const char* kWhere = "fill_from_patches";
  return call(error, [&] {
    const PositionsView to = positions_view_of(kWhere, "out", out);
    const Integers list = integers_of(kWhere, "patches", patches);
    const ImageGrid of = grid_of(*need(kWhere, "grid", grid));
    must(fill_from_patches(to, list, of, grid_layout_of(kWhere, layout).value));
  });
}

phasor_status phasor_fill_mrope(const phasor_tensor* out, double* deltas, size_t delta_count, const phasor_mrope_input* input,
                                phasor_error* error) {
  constexpr const char* kWhere = "fill_mrope";
  return call(error, [&] {
    const PositionsView to = positions_view_of(kWhere, "out", out);
    const auto differences = span_of(kWhere, "deltas", deltas, delta_count);
    phasor_mrope_input c = known(kWhere, "the input", need(kWhere, "the input", input));
    MropeInput value = input_of(kWhere, c);
    const std::vector<ImageGrid> images = grids_of(kWhere, "images", c.images, c.image_count);
    const std::vector<ImageGrid> videos = grids_of(kWhere, "videos", c.videos, c.video_count);
    value.images = images;
    value.videos = videos;
    value.seconds_per_grid = span_of(kWhere, "seconds_per_grid", c.seconds_per_grid, c.seconds_per_grid_count);
    must(fill_mrope(to, differences, value));
  });
}

}  // extern "C"
