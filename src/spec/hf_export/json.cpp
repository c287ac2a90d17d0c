// SPDX-License-Identifier: Apache-2.0
// An object of JSON text in order, and where two layers differ.
#include "spec/files/json.hpp"
#include "spec/hf_export/export.hpp"
#include "spec/rotary.hpp"

namespace phasor::spec {
namespace {

std::string text_of(std::int64_t value) { return std::to_string(value); }
std::string text_of(double value) { return json_number(value); }
std::string text_of(const std::string& value) { return json_string(value); }

bool same(const std::optional<ModelBias>& a, const std::optional<ModelBias>& b) {
  if (!a || !b) return !a && !b;
  return a->kind == b->kind && a->heads == b->heads && a->buckets == b->buckets && a->max_distance == b->max_distance &&
         a->max_alibi == b->max_alibi && a->bidirectional == b->bidirectional;
}

bool same(const std::optional<ModelAdditive>& a, const std::optional<ModelAdditive>& b) {
  if (!a || !b) return !a && !b;
  return a->kind == b->kind && a->length == b->length && a->width == b->width && a->first_position == b->first_position;
}

bool same(const std::optional<QueryTemperature>& a, const std::optional<QueryTemperature>& b) {
  if (!a || !b) return !a && !b;
  return a->kind == b->kind && a->scale == b->scale && a->length == b->length && a->shift == b->shift;
}

bool same(const std::optional<ModelDualChunk>& a, const std::optional<ModelDualChunk>& b) {
  if (!a || !b) return !a && !b;
  return a->chunk_size == b->chunk_size && a->local_size == b->local_size;
}

bool same(const Axes& a, const Axes& b) {
  return a.sections == b.sections && a.order == b.order && a.ladder == b.ladder && a.axis_of_pair == b.axis_of_pair;
}

std::string rotary_difference(const LayerPositions& left, const LayerPositions& right) {
  const RotarySpec& a = held(left.rotary);
  const RotarySpec& b = held(right.rotary);
  static constexpr Model plain{.type = "", .quirks = quirk_softmax_mscale};
  if (a.head_dim != b.head_dim) return "head_dim";
  if (rotary_width(a) != rotary_width(b)) return "rotary_width";
  if (a.rotary_offset != b.rotary_offset) return "rotary_offset";
  if (a.base != b.base) return "base";
  if (a.pairing != b.pairing) return "pairing";
  if (a.output_pairing.value_or(a.pairing) != b.output_pairing.value_or(b.pairing)) return "output_pairing";
  if (a.sense != b.sense) return "sense";
  if (!same(a.axes, b.axes)) return "axes";
  if (a.segments != b.segments) return "segments";
  if (a.lanes != b.lanes) return "lanes";
  if (a.unit != b.unit) return "unit";
  const auto* yarn_a = std::get_if<YarnScaling>(&a.scaling);
  const auto* yarn_b = std::get_if<YarnScaling>(&b.scaling);
  const bool softmax =
      yarn_a != nullptr && yarn_b != nullptr && yarn_a->softmax != yarn_b->softmax && yarn_a->mscale_all_dim.value_or(0) != 0;
  if (softmax) return "scaling.softmax";
  return rope_dictionary(left, plain, 0).text() == rope_dictionary(right, plain, 0).text() ? "" : "scaling";
}

}  // namespace

void JsonObject::add_text(std::string_view key, std::string_view text) {
  if (!body_.empty()) body_ += ",";
  body_.append("\n").append(2 * static_cast<std::size_t>(depth_) + 2, ' ').append(json_string(key)).append(": ").append(text);
}

void JsonObject::add(std::string_view key, std::int64_t value) { add_text(key, text_of(value)); }
void JsonObject::add(std::string_view key, double value) { add_text(key, text_of(value)); }
void JsonObject::add(std::string_view key, bool value) { add_text(key, value ? "true" : "false"); }
void JsonObject::add(std::string_view key, std::string_view value) { add_text(key, json_string(value)); }
void JsonObject::add(std::string_view key, const JsonObject& value) { add_text(key, value.text()); }
void JsonObject::add_null(std::string_view key) { add_text(key, "null"); }

template <class T>
void JsonObject::add_list(std::string_view key, const std::vector<T>& values) {
  std::string text = "[";
  for (const T& value : values) text.append(text.size() > 1 ? ", " : "").append(text_of(value));
  add_text(key, text + "]");
}
template void JsonObject::add_list(std::string_view, const std::vector<std::int64_t>&);
template void JsonObject::add_list(std::string_view, const std::vector<double>&);
template void JsonObject::add_list(std::string_view, const std::vector<std::string>&);

std::string JsonObject::text() const {
  return body_.empty() ? "{}" : "{" + body_ + "\n" + std::string(2 * static_cast<std::size_t>(depth_), ' ') + "}";
}

std::string first_difference(const LayerPositions& left, const LayerPositions& right) {
  if (left.type != right.type) return "type";
  if (left.rotary.has_value() != right.rotary.has_value()) return "rotary";
  if (left.rotary) {
    if (const std::string field = rotary_difference(left, right); !field.empty()) return "rotary." + field;
  }
  if (!same(left.bias, right.bias)) return "bias";
  if (!same(left.additive, right.additive)) return "additive";
  if (left.attention_scale != right.attention_scale) return "attention_scale";
  if (!same(left.query_temperature, right.query_temperature)) return "query_temperature";
  if (left.window != right.window) return "window";
  if (left.chunk != right.chunk) return "chunk";
  if (!same(left.dual_chunk, right.dual_chunk)) return "dual_chunk";
  if (left.output_turned_back != right.output_turned_back) return "output_turned_back";
  if (left.skipped_tokens != right.skipped_tokens) return "skipped_tokens";
  if (left.first_position != right.first_position) return "first_position";
  return {};
}

}  // namespace phasor::spec
