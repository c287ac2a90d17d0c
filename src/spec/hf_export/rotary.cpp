// SPDX-License-Identifier: Apache-2.0
// Writing layers that rotate: rope_parameters flat or by layer type, windows, layers without rotary, temperatures and scales.
#include <algorithm>
#include <cmath>
#include <map>

#include "spec/hf/layers.hpp"
#include "spec/hf_export/export.hpp"
#include "spec/rotary.hpp"

namespace phasor::spec {
namespace {

using Layers = std::vector<LayerPositions>;

[[noreturn]] void cannot_say(const std::string& what) { throw ExportError("has " + what + ", which a Hugging Face config cannot say"); }

// ---- Scalings ----

void write_scaling(JsonObject& out, const Unscaled&) { out.add("rope_type", "default"); }

void write_scaling(JsonObject& out, const LinearScaling& s) {
  out.add("rope_type", "linear");
  out.add("factor", s.factor);
}

void write_scaling(JsonObject& out, const NtkScaling& s) {
  out.add("rope_type", "dynamic");
  out.add("alpha", s.alpha);
  out.add("factor", 1.0);
}

void write_scaling(JsonObject& out, const NtkMixedScaling& s) {
  out.add("rope_type", "ntk");
  out.add("factor", s.factor);
  out.add_optional("mixed_b", s.mixed_exponent);
}

void write_scaling(JsonObject& out, const DynamicNtkScaling& s) {
  out.add("rope_type", "dynamic");
  out.add("factor", s.factor);
}

void write_scaling(JsonObject& out, const YarnScaling& s) {
  out.add("rope_type", "yarn");
  out.add("factor", s.factor);
  out.add("original_max_position_embeddings", s.original_length);
  out.add("beta_fast", s.beta_fast);
  out.add("beta_slow", s.beta_slow);
  if (s.ramp == YarnRamp::exact) out.add("truncate", false);
  out.add_optional("attention_factor", s.attention_factor);
  out.add_optional("mscale", s.mscale);
  out.add_optional("mscale_all_dim", s.mscale_all_dim);
}

void write_scaling(JsonObject& out, const LongRopeScaling& s) {
  if (s.choice != LongRopeChoice::by_length) cannot_say("LongRoPE with one of its lists chosen");
  out.add("rope_type", "longrope");
  out.add_list("short_factor", s.short_factors);
  out.add_list("long_factor", s.long_factors);
  out.add("original_max_position_embeddings", s.original_length);
  out.add("factor", s.factor);
  out.add_optional("attention_factor", s.attention_factor);
}

void write_scaling(JsonObject& out, const Llama3Scaling& s) {
  out.add("rope_type", "llama3");
  out.add("factor", s.factor);
  out.add("low_freq_factor", s.low_freq_factor);
  out.add("high_freq_factor", s.high_freq_factor);
  out.add("original_max_position_embeddings", s.original_length);
}

void write_scaling(JsonObject& out, const ProportionalScaling& s) {
  out.add("rope_type", "proportional");
  out.add("factor", s.factor);
  out.add("partial_rotary_factor", s.share);
}

void write_scaling(JsonObject&, const GivenFactors&) { cannot_say("given factors"); }
void write_scaling(JsonObject&, const GivenFrequencies&) { cannot_say("given frequencies"); }
void write_scaling(JsonObject&, const GivenDirections&) { cannot_say("given directions"); }

/// A share whose product with the head truncates to the width.
double share_of(std::int64_t width, std::int64_t head_dim) {
  if (width < 1 || width > head_dim) cannot_say("a rotary width of " + std::to_string(width) + " in a head of " + std::to_string(head_dim));
  double share = static_cast<double>(width) / static_cast<double>(head_dim);
  while (static_cast<std::int64_t>(share * static_cast<double>(head_dim)) < width) share = std::nextafter(share, 1.0);
  return share;
}

void write_axes(JsonObject& out, const Axes& axes, const Model& model) {
  if (axes.sections.empty() && axes.axis_of_pair.empty()) return;
  if (axes.ladder != AxisLadder::shared) return;  // of images: the model says so
  std::vector<std::int64_t> sections = axes.sections;
  if (model.has(quirk_sections_hwt) && sections.size() == 3) sections = {sections[1], sections[2], sections[0]};
  out.add_list("mrope_section", sections);
  if (axes.order == AxisOrder::interleaved) out.add("mrope_interleaved", true);
}

// ---- Layers ----

const LayerPositions* first_rotary(const Layers& layers) {
  const auto found = std::find_if(layers.begin(), layers.end(), [](const LayerPositions& l) { return l.rotary.has_value(); });
  return found == layers.end() ? nullptr : &*found;
}

bool same_dictionary(const LayerPositions& a, const LayerPositions& b, const Model& model) {
  return rope_dictionary(a, model, 0).text() == rope_dictionary(b, model, 0).text();
}

std::string label_of(const LayerPositions& layer, const Model& model) {
  if (!model.has(quirk_compress_labels)) return layer.type;
  return slides(layer.type) ? "main" : "compress";
}

/// The first rotary layer of each label, null for a label without.
std::map<std::string, const LayerPositions*> by_label(const Layers& layers, const Model& model) {
  std::map<std::string, const LayerPositions*> labels;
  for (const LayerPositions& layer : layers) {
    if (!attends(layer.type)) continue;
    const LayerPositions*& first = labels[label_of(layer, model)];
    if (first == nullptr && layer.rotary) first = &layer;
  }
  return labels;
}

void write_dictionaries(JsonObject& out, const Layers& layers, const Model& model) {
  const auto labels = by_label(layers, model);
  const LayerPositions* any = first_rotary(layers);
  if (any == nullptr) return;
  const bool by_rule = model.unrotated != Unrotated::none;  // the model itself says which layers do not rotate
  const auto differs = [&](const auto& label) { return label.second == nullptr ? !by_rule : !same_dictionary(*label.second, *any, model); };
  const bool by_type = model.local_base != 0 || model.has(quirk_scaling_is_full) || std::any_of(labels.begin(), labels.end(), differs);
  if (!by_type || labels.count("") != 0) {
    out.add("rope_parameters", rope_dictionary(*any, model, out.depth() + 1));
    return;
  }
  JsonObject nested(out.depth() + 1);
  for (const auto& [label, layer] : labels) {
    if (layer == nullptr) {
      nested.add_null(label);
    } else {
      nested.add(label, rope_dictionary(*layer, model, out.depth() + 2));
    }
  }
  out.add("rope_parameters", nested);
}

/// Layers of one type that differ in their base, or in whether they rotate.
void write_exceptions(JsonObject& out, const Layers& layers, const Model& model) {
  const auto labels = by_label(layers, model);
  bool bases = false;
  bool some = model.unrotated == Unrotated::by_interval;
  std::vector<double> base;
  std::vector<std::int64_t> rotates;
  for (const LayerPositions& layer : layers) {
    const bool attending = attends(layer.type);
    if (layer.rotary && !attending) cannot_say("a rotary in a layer of type " + layer.type);
    const LayerPositions* first = attending ? labels.at(label_of(layer, model)) : nullptr;
    if (first != nullptr && !layer.rotary) some = true;
    if (layer.rotary && layer.rotary->base != held(first->rotary).base) bases = true;
    base.push_back(layer.rotary ? layer.rotary->base : 0);
    rotates.push_back(layer.rotary || !attending ? 1 : 0);
  }
  if (bases) {
    out.add_list("layer_rope_theta", base);
  } else if (some) {
    out.add_list("no_rope_layers", rotates);
  }
}

void write_head(JsonObject& out, const Layers& layers, const Model& model) {
  const LayerPositions* any = first_rotary(layers);
  if (any == nullptr) return;
  const auto sliding = std::find_if(layers.begin(), layers.end(), [](const LayerPositions& l) { return l.rotary && slides(l.type); });
  const LayerPositions& plain = sliding == layers.end() ? *any : *sliding;
  const RotarySpec& spec = held(plain.rotary);
  if (model.place == Place::after_nope) {
    out.add("qk_nope_head_dim", spec.rotary_offset);
    out.add("qk_rope_head_dim", rotary_width(spec));
    return;
  }
  out.add("head_dim", spec.head_dim);
  if (model.rotary_width != 0) out.add("rotary_dim", rotary_width(spec));
  const auto full = std::find_if(layers.begin(), layers.end(), [](const LayerPositions& l) { return l.rotary && !slides(l.type); });
  if (model.has(quirk_global_head_dim) && full != layers.end()) out.add("global_head_dim", held(full->rotary).head_dim);
}

void write_windows(JsonObject& out, const Layers& layers, const Model& model) {
  std::int64_t window = 0;
  std::int64_t chunk = 0;
  for (const LayerPositions& layer : layers) {
    window = std::max(window, layer.window);
    chunk = std::max(chunk, layer.chunk);
  }
  if (model.has(quirk_half_window)) {
    out.add("local_attention", window);
  } else if (window > 0) {
    out.add("sliding_window", window);
  } else if (model.window != 0) {
    out.add_null("sliding_window");
  }
  if (chunk > 0) out.add("attention_chunk_size", chunk);
}

/// The number whose inverse square root is the scale, whole where that is near.
double scalar_of(double scale) {
  const double scalar = 1 / (scale * scale);
  const double whole = std::round(scalar);
  return std::fabs(scalar - whole) < 1e-9 * scalar ? whole : scalar;
}

void write_scale(JsonObject& out, const LayerPositions& layer, const Model& model) {
  if (!layer.attention_scale) return;
  if (model.scale == AttentionScale::query_pre_attn_scalar) out.add("query_pre_attn_scalar", scalar_of(*layer.attention_scale));
  if (model.scale == AttentionScale::attention_multiplier) out.add("attention_multiplier", *layer.attention_scale);
}

void write_temperature(JsonObject& out, const Layers& layers, const Model& model) {
  if (model.has(quirk_log_n)) out.add("use_logn_attn", layers.front().query_temperature.has_value());
  if (!model.has(quirk_temperature)) return;
  const auto found = std::find_if(layers.begin(), layers.end(), [](const LayerPositions& l) { return !l.rotary && l.query_temperature; });
  out.add("attn_temperature_tuning", found != layers.end());
  if (found == layers.end()) return;
  out.add("attn_scale", held(found->query_temperature).scale);
  out.add("floor_scale", held(found->query_temperature).length);
}

std::int64_t length_of(const Layers& layers, std::int64_t length) {
  for (const LayerPositions& layer : layers) {
    if (!layer.rotary) continue;
    if (const auto* dynamic = std::get_if<DynamicNtkScaling>(&layer.rotary->scaling)) return dynamic->trained_length;
  }
  return length;
}

}  // namespace

JsonObject rope_dictionary(const LayerPositions& layer, const Model& model, int depth) {
  const RotarySpec& spec = held(layer.rotary);
  JsonObject out(depth);
  std::visit([&](const auto& scaling) { write_scaling(out, scaling); }, spec.scaling);
  out.add("rope_theta", spec.base);
  const bool by_share =
      model.place != Place::after_nope && model.rotary_width == 0 && !std::holds_alternative<ProportionalScaling>(spec.scaling);
  if (by_share && (rotary_width(spec) != spec.head_dim || model.share != 1)) {
    out.add("partial_rotary_factor", share_of(rotary_width(spec), spec.head_dim));
  }
  write_axes(out, spec.axes, model);
  if (layer.query_temperature && layer.query_temperature->kind == QueryTemperature::Kind::floored_log &&
      layer.query_temperature->shift == 0) {
    out.add("llama_4_scaling_beta", layer.query_temperature->scale);
  }
  return out;
}

void write_rotary(JsonObject& out, const ExportPart& part) {
  const Layers& layers = *part.layers;
  const Model& model = *part.model;
  out.add("num_hidden_layers", static_cast<std::int64_t>(layers.size()));
  write_head(out, layers, model);
  out.add("max_position_embeddings", length_of(layers, part.length));
  const bool typed = std::any_of(layers.begin(), layers.end(), [](const LayerPositions& l) { return !l.type.empty(); });
  if (typed) {
    std::vector<std::string> types;
    for (const LayerPositions& layer : layers) types.push_back(layer.type);
    out.add_list("layer_types", types);
  }
  write_dictionaries(out, layers, model);
  write_exceptions(out, layers, model);
  write_windows(out, layers, model);
  write_scale(out, layers.front(), model);
  write_temperature(out, layers, model);
  const LayerPositions* any = first_rotary(layers);
  if (any != nullptr && model.has(quirk_interleave_key)) out.add("rope_interleave", held(any->rotary).pairing == Pairing::interleaved);
  if (layers.front().dual_chunk) {
    JsonObject dual(out.depth() + 1);
    dual.add("chunk_size", held(layers.front().dual_chunk).chunk_size);
    dual.add("local_size", held(layers.front().dual_chunk).local_size);
    out.add("dual_chunk_attention_config", dual);
  }
}

void write_patches(JsonObject& out, const ExportPart& part) {
  const LayerPositions& layer = part.layers->front();
  if (!layer.rotary) cannot_say("an image encoder without rotary");
  const auto layers = static_cast<std::int64_t>(part.layers->size());
  if (part.model->encoding == Encoding::sam2_memory) {
    out.add("memory_attention_num_layers", layers);
    out.add("memory_attention_hidden_size", layer.rotary->head_dim);
    out.add("memory_attention_num_attention_heads", std::int64_t{1});
  } else {
    out.add("num_hidden_layers", layers);
    out.add("hidden_size", layer.rotary->head_dim);
    out.add("num_attention_heads", std::int64_t{1});
    out.add("head_dim", layer.rotary->head_dim);
  }
  if (part.model->encoding == Encoding::dinov3) out.add("num_register_tokens", layer.skipped_tokens - 1);
  out.add("rope_theta", layer.rotary->base);
}

}  // namespace phasor::spec
