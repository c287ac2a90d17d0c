// SPDX-License-Identifier: Apache-2.0
// Models in C: read, explained, compared, written in the dialects.
#include "phasor/model.hpp"

#include <memory>
#include <span>
#include <string>
#include <utility>

#include "core/call.hpp"
#include "core/fields.hpp"
#include "core/lists.hpp"
#include "handles.hpp"
#include "phasor/c/model.h"
#include "specs/serialised.hpp"

namespace {

using namespace phasor;
using namespace phasor::c;

/// What a reader gives, with the caller's options.
template <class Read>
void make(const char* where, const phasor_read_options* options, phasor_model** model, const Read& read) {
  need(where, "model", model);
  const ReadOptions how{.length = known(where, "the options", options).length};
  *model = std::make_unique<phasor_model>(value_of(read(how))).release();
}

ExplainOptions explain_options_of(const char* where, const phasor_explain_options* options) {
  phasor_explain_options c = known(where, "the options", options);
  ExplainOptions value;
  Read(where).flagged("layer", c.has_layer, c.layer, value.layer);
  return value;
}

}  // namespace

extern "C" {

phasor_status phasor_read_model(const char* path, const phasor_read_options* options, phasor_model** model, phasor_error* error) {
  constexpr const char* kWhere = "read_model";
  return call(error, [&] {
    need(kWhere, "path", path);
    make(kWhere, options, model, [&](const ReadOptions& how) { return read_model(path, how); });
  });
}

phasor_status phasor_parse_hf_config(const char* json, size_t length, const phasor_read_options* options, phasor_model** model,
                                     phasor_error* error) {
  constexpr const char* kWhere = "parse_hf_config";
  return call(error, [&] {
    const std::string_view text = text_of(kWhere, json, length);
    make(kWhere, options, model, [&](const ReadOptions& how) { return parse_hf_config(text, how); });
  });
}

phasor_status phasor_parse_gguf(const uint8_t* bytes, size_t count, const phasor_read_options* options, phasor_model** model,
                                phasor_error* error) {
  constexpr const char* kWhere = "parse_gguf";
  return call(error, [&] {
    const std::span<const std::byte> file = std::as_bytes(span_of(kWhere, "bytes", bytes, count));
    make(kWhere, options, model, [&](const ReadOptions& how) { return parse_gguf(file, how); });
  });
}

phasor_status phasor_model_make(const phasor_model_positions* positions, phasor_model** model, phasor_error* error) {
  constexpr const char* kWhere = "model_make";
  return call(error, [&] {
    need(kWhere, "model", model);
    *model = std::make_unique<phasor_model>(model_positions_of(kWhere, positions)).release();
  });
}

void phasor_model_free(phasor_model* model) { delete model; }

phasor_status phasor_model_get_positions(const phasor_model* model, phasor_model_positions* positions, phasor_error* error) {
  constexpr const char* kWhere = "model_get_positions";
  return call(error, [&] { give(kWhere, "positions", need(kWhere, "model", model)->structs.positions(), positions); });
}

phasor_status phasor_model_get_layer(const phasor_model* model, int64_t tower, size_t index, phasor_layer_positions* layer,
                                     phasor_error* error) {
  constexpr const char* kWhere = "model_get_layer";
  return call(error, [&] { give(kWhere, "layer", need(kWhere, "model", model)->structs.layer(kWhere, tower, index), layer); });
}

phasor_status phasor_model_make_rotary(const phasor_model* model, int64_t tower, size_t index, int32_t own_numerics, phasor_rotary** rotary,
                                       phasor_error* error) {
  constexpr const char* kWhere = "model_make_rotary";
  return call(error, [&] {
    need(kWhere, "rotary", rotary);
    need(kWhere, "model", model)->structs.layer(kWhere, tower, index);  // checks the numbers
    const auto& layers = tower == -1 ? model->value.layers : model->value.towers[static_cast<std::size_t>(tower)].layers;
    const LayerPositions& layer = layers[index];
    if (!layer.rotary) fail(std::string(kWhere) + ": layer " + std::to_string(index) + " has no rotary encoding, wanted one that has");
    RotarySpec spec = *layer.rotary;
    if (own_numerics != 0) spec.numerics = layer.numerics;
    *rotary = new phasor_rotary{value_of(Rotary::make(spec))};
  });
}

phasor_status phasor_explain(const phasor_model* model, const phasor_explain_options* options, phasor_text* text, phasor_error* error) {
  return call(error, [&] {
    const ModelPositions& value = need("explain", "model", model)->value;
    give("explain", value_of(explain(value, explain_options_of("explain", options))), text);
  });
}

phasor_status phasor_explain_json(const phasor_model* model, const phasor_explain_options* options, phasor_text* json,
                                  phasor_error* error) {
  return call(error, [&] {
    const ModelPositions& value = need("explain_json", "model", model)->value;
    give("explain_json", value_of(explain_json(value, explain_options_of("explain_json", options))), json);
  });
}

phasor_status phasor_to_hf_config(const phasor_model* model, phasor_text* json, phasor_error* error) {
  return call(error, [&] { give("to_hf_config", value_of(to_hf_config(need("to_hf_config", "model", model)->value)), json); });
}

phasor_status phasor_to_gguf_keys(const phasor_model* model, const char* architecture, phasor_text* json, phasor_error* error) {
  constexpr const char* kWhere = "to_gguf_keys";
  return call(error, [&] {
    const ModelPositions& value = need(kWhere, "model", model)->value;
    give(kWhere, value_of(to_gguf_keys(value, need(kWhere, "architecture", architecture))), json);
  });
}

phasor_status phasor_diff(const phasor_model* left, const phasor_model* right, phasor_differences** differences, phasor_error* error) {
  return call(error, [&] {
    need("diff", "differences", differences);
    *differences = new phasor_differences{value_of(diff(need("diff", "left", left)->value, need("diff", "right", right)->value))};
  });
}

void phasor_differences_free(phasor_differences* differences) { delete differences; }

size_t phasor_differences_count(const phasor_differences* differences) { return differences == nullptr ? 0 : differences->value.size(); }

phasor_status phasor_differences_get(const phasor_differences* differences, size_t index, phasor_difference* difference,
                                     phasor_error* error) {
  constexpr const char* kWhere = "differences_get";
  return call(error, [&] {
    const Difference& one = item_of(kWhere, "index", need(kWhere, "differences", differences)->value, index);
    give(kWhere, "difference",
         {.size = sizeof(phasor_difference),
          .where = one.where.c_str(),
          .left = one.left.c_str(),
          .right = one.right.c_str(),
          .why = one.why.c_str(),
          .matters = one.matters ? 1 : 0,
          .reserved = 0},
         difference);
  });
}

}  // extern "C"
