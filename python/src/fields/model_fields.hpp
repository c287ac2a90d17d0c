// SPDX-License-Identifier: Apache-2.0
// Fields of what a model's files say about its positions.
#pragma once

#include "fields/fields.hpp"
#include "fields/position_fields.hpp"
#include "phasor/model.hpp"
#include "phasor/weights.hpp"

namespace phasor::python {

template <>
inline constexpr std::string_view kName<ModelBias> = "ModelBias";
template <>
inline constexpr std::string_view kName<ModelAdditive> = "ModelAdditive";
template <>
inline constexpr std::string_view kName<ModelDualChunk> = "ModelDualChunk";
template <>
inline constexpr std::string_view kName<LayerPositions> = "LayerPositions";
template <>
inline constexpr std::string_view kName<ModelTower> = "ModelTower";
template <>
inline constexpr std::string_view kName<ModelPositions> = "ModelPositions";
template <>
inline constexpr std::string_view kName<Difference> = "Difference";
template <>
inline constexpr std::string_view kName<PermuteOptions> = "PermuteOptions";
template <>
inline constexpr std::string_view kName<PermuteReport> = "PermuteReport";

template <>
inline constexpr std::array<std::string_view, 6> kValues<ModelBias::Kind>{"alibi", "t5_buckets",     "deberta",
                                                                          "xlnet", "transformer_xl", "swin"};
template <>
inline constexpr std::array<std::string_view, 2> kValues<ModelAdditive::Kind>{"learned", "sinusoidal"};
template <>
inline constexpr std::array<std::string_view, 4> kValues<PairingRelation>{"same", "half_to_interleaved", "interleaved_to_half",
                                                                          "different"};

void fields(auto& visit, Of<ModelBias> auto& s) {
  visit("kind", s.kind);
  visit("heads", s.heads);
  visit("buckets", s.buckets);
  visit("max_distance", s.max_distance);
  visit("max_alibi", s.max_alibi);
  visit("bidirectional", s.bidirectional);
}
void fields(auto& visit, Of<ModelAdditive> auto& s) {
  visit("kind", s.kind);
  visit("length", s.length);
  visit("width", s.width);
  visit("first_position", s.first_position);
}
void fields(auto& visit, Of<ModelDualChunk> auto& s) {
  visit("chunk_size", s.chunk_size);
  visit("local_size", s.local_size);
}
void fields(auto& visit, Of<LayerPositions> auto& s) {
  visit("type", s.type);
  visit("rotary", s.rotary);
  visit("bias", s.bias);
  visit("additive", s.additive);
  visit("attention_scale", s.attention_scale);
  visit("query_temperature", s.query_temperature);
  visit("window", s.window);
  visit("chunk", s.chunk);
  visit("dual_chunk", s.dual_chunk);
  visit("numerics", s.numerics);
  visit("output_turned_back", s.output_turned_back);
  visit("skipped_tokens", s.skipped_tokens);
  visit("first_position", s.first_position);
}
void fields(auto& visit, Of<ModelTower> auto& s) {
  visit("name", s.name);
  visit("model_type", s.model_type);
  visit("layers", s.layers);
}
void fields(auto& visit, Of<ModelPositions> auto& s) {
  visit("dialect", s.dialect);
  visit("model_type", s.model_type);
  visit("text_type", s.text_type);
  visit("layers", s.layers);
  visit("towers", s.towers);
  visit("trained_length", s.trained_length);
  visit("length", s.length);
  visit("warnings", s.warnings);
}
void fields(auto& visit, Of<Difference> auto& s) {
  visit("where", s.where);
  visit("left", s.left);
  visit("right", s.right);
  visit("matters", s.matters);
  visit("why", s.why);
}
void fields(auto& visit, Of<PermuteOptions> auto& s) {
  visit("source", s.from);  // `from` is a word of Python
  visit("target", s.to);
  visit("heads", s.heads);
  visit("kv_heads", s.kv_heads);
  visit("head_dim", s.head_dim);
  visit("rotary_width", s.rotary_width);
  visit("rotary_offset", s.rotary_offset);
  visit("prefix", s.prefix);
}
void fields(auto& visit, Of<PermuteReport> auto& s) {
  visit("permuted", s.permuted);
  visit("copied", s.copied);
}

}  // namespace phasor::python
