// SPDX-License-Identifier: Apache-2.0
// Fields of what builders of positions take; lists of integers are arguments of their own.
#pragma once

#include "fields/fields.hpp"
#include "phasor/position_builders.hpp"
#include "phasor/position_maps.hpp"

namespace phasor::python {

template <>
inline constexpr std::string_view kName<MaskRule> = "MaskRule";
template <>
inline constexpr std::string_view kName<ImageGrid> = "ImageGrid";
template <>
inline constexpr std::string_view kName<GridLayout> = "GridLayout";
template <>
inline constexpr std::string_view kName<MropeTokens> = "MropeTokens";
template <>
inline constexpr std::string_view kName<MropeInput> = "MropeInput";
template <>
inline constexpr std::string_view kName<Shard> = "Shard";
template <>
inline constexpr std::string_view kName<QueryTemperature> = "QueryTemperature";

template <>
inline constexpr std::array<std::string_view, 3> kValues<GridAxis>{"frame", "row", "column"};
template <>
inline constexpr std::array<std::string_view, 2> kValues<GridUnit>{"index", "centre"};
template <>
inline constexpr std::array<std::string_view, 7> kValues<MropeModel>{"qwen2_vl",    "qwen2_5_vl",   "qwen3_vl",  "glm4v",
                                                                     "ernie4_5_vl", "qwen2_5_omni", "qwen3_omni"};
template <>
inline constexpr std::array<std::string_view, 4> kValues<ShardOrder>{"contiguous", "zigzag", "striped", "permuted"};
template <>
inline constexpr std::array<std::string_view, 2> kValues<MapSide>{"queries", "keys"};
template <>
inline constexpr std::array<std::string_view, 2> kValues<QueryTemperature::Kind>{"log_n", "floored_log"};

void fields(auto& visit, Of<MaskRule> auto& s) {
  visit("first", s.first);
  visit("masked", s.masked);
}
void fields(auto& visit, Of<ImageGrid> auto& s) {
  visit("frames", s.frames);
  visit("rows", s.rows);
  visit("columns", s.columns);
}
void fields(auto& visit, Of<GridLayout> auto& s) {
  visit("merge", s.merge);
  visit("unit", s.unit);
  visit("first", s.first);
  visit("prefix", s.prefix);
  visit("suffix", s.suffix);
  visit("outside", s.outside);
}
void fields(auto& visit, Of<MropeTokens> auto& s) {
  visit("image", s.image);
  visit("video", s.video);
  visit("audio", s.audio);
  visit("vision_start", s.vision_start);
  visit("audio_start", s.audio_start);
  visit("video_start", s.video_start);
  visit("video_end", s.video_end);
}
void fields(auto& visit, Of<MropeInput> auto& s) {
  visit("model", s.model);
  visit("use_audio_in_video", s.use_audio_in_video);
  visit("tokens", s.tokens);
  visit("merge", s.merge);
  visit("temporal_merge", s.temporal_merge);
  visit("tokens_per_second", s.tokens_per_second);
  visit("position_id_per_seconds", s.position_id_per_seconds);
  visit("seconds_per_chunk", s.seconds_per_chunk);
  visit("audio_window", s.audio_window);
}
void fields(auto& visit, Of<Shard> auto& s) {
  visit("rank", s.rank);
  visit("ranks", s.ranks);
  visit("order", s.order);
  visit("tokens", s.tokens);
}
void fields(auto& visit, Of<QueryTemperature> auto& s) {
  visit("kind", s.kind);
  visit("scale", s.scale);
  visit("length", s.length);
  visit("shift", s.shift);
}

}  // namespace phasor::python
