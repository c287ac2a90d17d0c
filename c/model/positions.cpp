// SPDX-License-Identifier: Apache-2.0
// Which field of C is which of C++, for what a model's files say about its positions.
#include "model/positions.hpp"

#include <optional>
#include <string>

#include "core/fields.hpp"
#include "core/lists.hpp"
#include "phasor/fields.hpp"
#include "specs/position_map.hpp"
#include "specs/rotary.hpp"

namespace phasor::c {
namespace {

constexpr int kBiasKinds = 6, kNumerics = 5;
static_assert(static_cast<int>(ModelBias::Kind::swin) == PHASOR_MODEL_BIAS_SWIN && PHASOR_MODEL_BIAS_SWIN == kBiasKinds - 1);
static_assert(static_cast<int>(Numerics::ggml) == PHASOR_NUMERICS_GGML && PHASOR_NUMERICS_GGML == kNumerics - 1);

void fields(auto& way, phasor_model_bias& c, SpecOf<ModelBias> auto& s) {
  way.choice("kind", c.kind, s.kind, kBiasKinds);
  way("heads", c.heads, s.heads);
  way("buckets", c.buckets, s.buckets);
  way("max_distance", c.max_distance, s.max_distance);
  way("max_alibi", c.max_alibi, s.max_alibi);
  way("bidirectional", c.bidirectional, s.bidirectional);
}
void fields(auto& way, phasor_model_additive& c, SpecOf<ModelAdditive> auto& s) {
  way.choice("kind", c.kind, s.kind, 2);
  way("length", c.length, s.length);
  way("width", c.width, s.width);
  way("first_position", c.first_position, s.first_position);
}
void fields(auto& way, phasor_model_dual_chunk& c, SpecOf<ModelDualChunk> auto& s) {
  way("chunk_size", c.chunk_size, s.chunk_size);
  way("local_size", c.local_size, s.local_size);
}
/// All but the type, the numerics and what is behind a pointer.
void fields(auto& way, phasor_layer_positions& c, SpecOf<LayerPositions> auto& s) {
  way.flagged("attention_scale", c.has_attention_scale, c.attention_scale, s.attention_scale);
  way("window", c.window, s.window);
  way("chunk", c.chunk, s.chunk);
  way("output_turned_back", c.output_turned_back, s.output_turned_back);
  way("skipped_tokens", c.skipped_tokens, s.skipped_tokens);
  way("first_position", c.first_position, s.first_position);
}

// ---- Read ----

std::string text_or_empty(const char* text) { return text == nullptr ? std::string() : std::string(text); }

template <class S, class C>
std::optional<S> part_of(const char* where, const char* name, const C* given) {
  if (given == nullptr) return std::nullopt;
  C c = known(where, name, given);
  S value;
  const Read way(where);
  fields(way, c, value);
  return value;
}

LayerPositions layer_of(const char* where, const phasor_layer_positions* given) {
  phasor_layer_positions c = known(where, "a layer", need(where, "a layer", given));
  LayerPositions layer;
  const Read way(where);
  fields(way, c, layer);
  layer.type = text_or_empty(c.type);
  if (c.rotary != nullptr) layer.rotary = rotary_spec_of(where, c.rotary);
  layer.bias = part_of<ModelBias>(where, "a layer's bias", c.bias);
  layer.additive = part_of<ModelAdditive>(where, "a layer's additive", c.additive);
  if (c.query_temperature != nullptr) layer.query_temperature = query_temperature_of(where, c.query_temperature);
  layer.dual_chunk = part_of<ModelDualChunk>(where, "a layer's dual_chunk", c.dual_chunk);
  std::optional<Numerics> numerics;
  way.flagged_choice("numerics", c.has_numerics, c.numerics, numerics, kNumerics);
  layer.numerics = numerics.value_or(layer.numerics);
  return layer;
}

std::vector<LayerPositions> layers_of(const char* where, const phasor_layer_positions* const* layers, std::size_t count) {
  std::vector<LayerPositions> list;
  for (const phasor_layer_positions* layer : span_of(where, "layers", layers, count)) list.push_back(layer_of(where, layer));
  return list;
}

// ---- Write ----

/// Fills `to` and gives its address, or null for what is not there.
template <class S, class C>
const C* filled(const std::optional<S>& value, C& to) {
  if (!value) return nullptr;
  to.size = sizeof(C);
  const Write way;
  fields(way, to, *value);
  return &to;
}

void fill(const LayerPositions& layer, LayerStructs& to) {
  to.layer.size = sizeof(to.layer);
  const Write way;
  fields(way, to.layer, layer);
  to.layer.type = layer.type.c_str();
  to.layer.bias = filled(layer.bias, to.bias);
  to.layer.additive = filled(layer.additive, to.additive);
  to.layer.dual_chunk = filled(layer.dual_chunk, to.dual_chunk);
  way.flagged_choice("numerics", to.layer.has_numerics, to.layer.numerics, std::optional(layer.numerics), kNumerics);
  if (layer.query_temperature) {
    to.query_temperature = c_query_temperature_of(*layer.query_temperature);
    to.layer.query_temperature = &to.query_temperature;
  }
  if (!layer.rotary) return;
  to.scaling = c_scaling_of(layer.rotary->scaling);
  to.rotary = c_spec_of(*layer.rotary);
  to.rotary.scaling = &to.scaling;
  to.layer.rotary = &to.rotary;
}

}  // namespace

ModelPositions model_positions_of(const char* where, const phasor_model_positions* positions) {
  const phasor_model_positions c = known(where, "positions", need(where, "positions", positions));
  ModelPositions model;
  model.dialect = text_or_empty(c.dialect);
  model.model_type = text_or_empty(c.model_type);
  model.text_type = text_or_empty(c.text_type);
  model.layers = layers_of(where, c.layers, c.layer_count);
  for (const phasor_model_tower* given : span_of(where, "towers", c.towers, c.tower_count)) {
    const phasor_model_tower tower = known(where, "a tower", need(where, "a tower", given));
    model.towers.push_back({text_or_empty(tower.name), text_or_empty(tower.model_type), layers_of(where, tower.layers, tower.layer_count)});
  }
  model.trained_length = c.trained_length;
  model.length = c.length;
  for (const char* warning : span_of(where, "warnings", c.warnings, c.warning_count)) model.warnings.push_back(text_or_empty(warning));
  return model;
}

LayerList::LayerList(const std::vector<LayerPositions>& layers) : structs_(layers.size()) {
  for (std::size_t i = 0; i < layers.size(); ++i) {
    fill(layers[i], structs_[i]);
    pointers_.push_back(&structs_[i].layer);
  }
}

ModelStructs::ModelStructs(const ModelPositions& model) : layers_(model.layers) {
  tower_layers_.reserve(model.towers.size());
  towers_.reserve(model.towers.size());
  for (const ModelTower& tower : model.towers) {
    const auto& layers = tower_layers_.emplace_back(tower.layers).pointers();
    towers_.push_back({sizeof(phasor_model_tower), tower.name.c_str(), tower.model_type.c_str(), layers.data(), layers.size()});
    tower_pointers_.push_back(&towers_.back());
  }
  for (const std::string& warning : model.warnings) warnings_.push_back(warning.c_str());
  positions_ = {.size = sizeof(phasor_model_positions),
                .dialect = model.dialect.c_str(),
                .model_type = model.model_type.c_str(),
                .text_type = model.text_type.c_str(),
                .layers = layers_.pointers().data(),
                .layer_count = layers_.pointers().size(),
                .towers = tower_pointers_.data(),
                .tower_count = tower_pointers_.size(),
                .warnings = warnings_.data(),
                .warning_count = warnings_.size(),
                .trained_length = model.trained_length,
                .length = model.length};
}

const phasor_layer_positions& ModelStructs::layer(const char* where, std::int64_t tower, std::size_t index) const {
  const auto towers = static_cast<std::int64_t>(tower_layers_.size());
  if (tower < -1 || tower >= towers) {
    fail(std::string(where) + ": tower is " + std::to_string(tower) + ", wanted -1 to " + std::to_string(towers - 1));
  }
  return *item_of(where, "layer", (tower == -1 ? layers_ : tower_layers_[static_cast<std::size_t>(tower)]).pointers(), index);
}

}  // namespace phasor::c
