// SPDX-License-Identifier: Apache-2.0
// Which kind each layer of a GGUF model is, from the file's patterns or its architecture's habits.
#include "spec/gguf/layers.hpp"

#include <algorithm>

namespace phasor::spec {
namespace {

constexpr std::int64_t most_layers = 1024;

std::int64_t count_layers(const GgufKeys& keys) {
  const std::int64_t all = keys.required("block_count", 1, most_layers);
  // Layers that predict further tokens come after the model's own.
  const std::int64_t further = keys.integer("nextn_predict_layers").value_or(0);
  return further < all ? all - further : all;
}

bool slides_by_period(const GgufArchitecture& architecture, std::int64_t layer, std::int64_t period) {
  if (period == 0 || architecture.sliding == GgufSliding::every_layer) return true;
  return architecture.sliding == GgufSliding::full_first ? layer % period != 0 : layer % period < period - 1;
}

std::int64_t window_of(const GgufKeys& keys, const GgufArchitecture& architecture) {
  const std::int64_t given = keys.integer("attention.sliding_window").value_or(0);
  if (keys.has("attention.sliding_window") || architecture.sliding == GgufSliding::ignored) return given;
  if (architecture.name == "llama4") return 8192;
  if (architecture.name == "gemma2") return 4096;
  return 0;
}

void mark_sliding(const GgufKeys& keys, const GgufArchitecture& architecture, GgufLayers& layers) {
  layers.window = window_of(keys, architecture);
  if (architecture.sliding == GgufSliding::ignored || layers.window == 0) return;
  const auto count = static_cast<std::int64_t>(layers.layers.size());
  const char* pattern_key = "attention.sliding_window_pattern";
  const auto found = keys.file().keys.find(keys.full(pattern_key));
  const bool scalar = found == keys.file().keys.end() || found->second.type != GgufType::array;
  const std::int64_t period = scalar ? keys.integer(pattern_key).value_or(architecture.period) : 0;
  std::vector<std::int64_t> pattern;
  if (!scalar) pattern = keys.per_layer(pattern_key, count).value_or(pattern);
  for (std::int64_t i = 0; i < count; ++i) {
    GgufLayer& layer = layers.layers[static_cast<std::size_t>(i)];
    layer.sliding = scalar ? slides_by_period(architecture, i, period) : pattern[static_cast<std::size_t>(i)] != 0;
    layers.some_slide |= layer.sliding;
  }
}

/// Layers of hybrids without attention: marked in the file, by a head count of 0, or all but every n-th.
void mark_without_attention(const GgufKeys& keys, const GgufArchitecture& architecture, GgufLayers& layers) {
  const auto count = static_cast<std::int64_t>(layers.layers.size());
  const bool interval_by_default = architecture.name == "qwen3next" || architecture.name == "qwen35" || architecture.name == "qwen35moe" ||
                                   architecture.name == "minimax-01";
  const auto heads = keys.per_layer("attention.head_count", count);
  const auto kv_heads = keys.per_layer("attention.head_count_kv", count);
  const auto recurrent = keys.per_layer("attention.recurrent_layers", count);
  const std::int64_t interval =
      keys.integer("full_attention_interval").value_or(interval_by_default ? (architecture.name == "minimax-01" ? 8 : 4) : 1);
  for (std::int64_t i = 0; i < count; ++i) {
    const auto at = static_cast<std::size_t>(i);
    bool attends = (!heads || (*heads)[at] != 0) && (!kv_heads || (*kv_heads)[at] != 0);
    if (recurrent) {
      attends &= (*recurrent)[at] == 0;
    } else if (interval > 1) {
      attends &= (i + 1) % interval == 0;
    }
    layers.layers[at].attends = attends;
  }
}

bool is_rotated(const GgufArchitecture& architecture, const GgufLayers& layers, std::int64_t index, bool finetuned) {
  const GgufLayer& layer = layers.layers[static_cast<std::size_t>(index)];
  const std::int64_t layer_step = 4;
  switch (architecture.unrotated) {
    case GgufUnrotated::none:
      return true;
    case GgufUnrotated::every_fourth:
      return (index + 1) % layer_step != 0;
    case GgufUnrotated::every_fourth_if_sliding:
      return layers.window == 0 || (index + 1) % layer_step != 0;
    case GgufUnrotated::first_of_four:
      return layers.window == 0 || index % layer_step != 0;
    case GgufUnrotated::full_layers:
      return layer.sliding;
    case GgufUnrotated::full_if_sliding:
      return layer.sliding || !layers.some_slide;
    case GgufUnrotated::by_finetuned:
      return finetuned;
  }
  return true;
}

void mark_rotated(const GgufKeys& keys, const GgufArchitecture& architecture, GgufLayers& layers) {
  const auto count = static_cast<std::int64_t>(layers.layers.size());
  const bool finetuned = keys.flag("rope.scaling.finetuned").value_or(true);
  const auto pattern = keys.per_layer("attention.rope_pattern", count);
  // Cohere's mixture rotates its leading dense layers although they are full.
  const std::int64_t leading = architecture.name == "cohere2moe" ? keys.integer("leading_dense_block_count").value_or(0) : 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const auto at = static_cast<std::size_t>(i);
    layers.layers[at].rotated = i < leading || is_rotated(architecture, layers, i, finetuned);
    if (pattern) layers.layers[at].rotated = (*pattern)[at] != 0;
  }
}

}  // namespace

GgufLayers layers_of(const GgufKeys& keys, const GgufArchitecture& architecture) {
  GgufLayers layers;
  layers.layers.resize(static_cast<std::size_t>(count_layers(keys)));
  mark_sliding(keys, architecture, layers);
  mark_without_attention(keys, architecture, layers);
  mark_rotated(keys, architecture, layers);
  if (const auto ratios = keys.per_layer("attention.compress_ratios", static_cast<std::int64_t>(layers.layers.size()))) {
    for (std::size_t i = 0; i < layers.layers.size(); ++i) layers.layers[i].compressed = (*ratios)[i] != 0;
  }
  return layers;
}

}  // namespace phasor::spec
