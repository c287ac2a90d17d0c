// SPDX-License-Identifier: Apache-2.0
// Shapes and layer types: the names that configs have for the same sizes, and the layers that a file without layer_types means.
#include "spec/hf/layers.hpp"

#include <algorithm>

namespace phasor::spec {
namespace {

constexpr std::int64_t most_hidden = std::int64_t{1} << 32;

std::int64_t head_dim_of(const Section& config, const Model& model, std::int64_t hidden, std::int64_t heads) {
  if (model.place == Place::after_nope) {
    const std::int64_t rest = config.integer({"qk_nope_head_dim"}).value_or(model.mla[0]);
    const std::int64_t turned = config.count({"qk_rope_head_dim"}, most_channels).value_or(model.mla[1]);
    if (rest < 0 || rest > most_channels)
      config.find({"qk_nope_head_dim"}).wrong("a whole number from 0 to " + std::to_string(most_channels));
    return rest + turned;
  }
  if (const auto own = config.count({"head_dim", "attention_head_dim", "kv_channels", "d_kv", "d_head"}, most_channels)) return *own;
  const bool by_class = model.sizes.head_dim != 0 && !(config.mentions("head_dim") && !config.has("head_dim"));
  const std::int64_t head_dim = by_class ? model.sizes.head_dim : hidden / heads;
  if (head_dim < 1 || head_dim > most_channels) {
    fail_config(config.path_of("hidden_size") + " of " + std::to_string(hidden) + " for " + std::to_string(heads) +
                " heads gives heads of " + std::to_string(head_dim) + " channels, wanted 1 to " + std::to_string(most_channels));
  }
  return head_dim;
}

std::string pattern_type(const LayerPattern& pattern, std::int64_t layer, std::int64_t period) {
  using Kind = LayerPattern::Kind;
  const bool last = (layer + 1) % period == 0;
  const char* full = "full_attention";
  const char* sliding = "sliding_attention";
  switch (pattern.kind) {
    case Kind::full_last:
      return last ? full : sliding;
    case Kind::full_first:
      return layer % period == 0 ? full : sliding;
    case Kind::linear:
      return last ? full : "linear_attention";
    case Kind::alternating:
      return layer % 2 == 0 ? full : "linear_attention";
    case Kind::sliding:
      return sliding;
    case Kind::mimo:
      return layer == 0 || last ? full : sliding;
    case Kind::deepseek_v4:
      return layer < 2 || layer % 2 == 0 ? "heavily_compressed_attention" : "compressed_sparse_attention";
    case Kind::chunked:  // decided by the layers without rotary
    case Kind::windowed:
    case Kind::uniform:
      break;
  }
  return {};
}

std::int64_t period_of(const Section& config, const LayerPattern& pattern) {
  const auto own = config.count({"sliding_window_pattern", "global_attn_every_n_layers", "full_attention_interval"}, most_layers);
  return own.value_or(pattern.period);
}

/// Qwen: layers from max_window_layers on, where windows are on at all.
std::string windowed_type(const Section& config, std::int64_t layer, std::int64_t from) {
  if (!config.boolean({"use_sliding_window"}).value_or(false)) return {};
  return layer >= config.integer({"max_window_layers"}).value_or(from) ? "sliding_attention" : "full_attention";
}

/// DeepSeek-V4's compress_ratios and MiMo's hybrid_layer_pattern name layer types by numbers.
std::vector<std::string> numbered_types(const Section& config, std::string_view key) {
  std::vector<std::string> types;
  const std::vector<std::int64_t> numbers = held(config.integers({key}));
  for (const std::int64_t number : numbers) {
    if (key == "hybrid_layer_pattern") {
      types.emplace_back(number == 0 ? "full_attention" : "sliding_attention");
    } else if (number == 0 || number == 4 || number == 128) {
      types.emplace_back(number == 0 ? "sliding_attention" : number == 4 ? "compressed_sparse_attention" : "heavily_compressed_attention");
    } else {
      config.find({key}).wrong("a list of 0, 4 and 128");
    }
  }
  return types;
}

std::vector<std::string> listed_types(const Section& config, std::int64_t layers) {
  const Found listed = config.find({"layer_types", "layers_block_type", "compress_ratios", "hybrid_layer_pattern"});
  std::vector<std::string> types;
  if (!listed) return types;
  if (config.has("layer_types") || config.has("layers_block_type")) {
    types = held(config.texts({"layer_types", "layers_block_type"}));
  } else {
    types = numbered_types(config, config.has("compress_ratios") ? "compress_ratios" : "hybrid_layer_pattern");
  }
  if (static_cast<std::int64_t>(types.size()) < layers) {
    listed.wrong("an entry for each of " + std::to_string(layers) + " layers");
  }
  types.resize(static_cast<std::size_t>(layers));  // longer lists have entries for layers that predict further tokens
  return types;
}

}  // namespace

Shape read_shape(const Section& config, const Model& model) {
  Shape shape;
  const Sizes& sizes = model.sizes;
  shape.hidden = config.count({"embed_dim", "hidden_size", "n_embd", "d_model"}, most_hidden).value_or(sizes.hidden);
  shape.heads =
      config.count({"num_attention_heads", "n_head", "n_heads", "num_heads", "encoder_attention_heads", "attention_heads"}, most_hidden)
          .value_or(sizes.heads);
  shape.layers = config.count({"num_hidden_layers", "n_layer", "n_layers", "num_layers", "depth", "encoder_layers"}, most_layers)
                     .value_or(sizes.layers);
  const auto length =
      config.integer({"max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "max_sequence_length", "model_max_length"});
  if (length && (*length < 0 || *length > most_positions)) {
    fail_config(config.path_of("max_position_embeddings") + " is " + std::to_string(*length) + ", wanted a number of positions");
  }
  shape.length = length.value_or(sizes.length);
  shape.head_dim = head_dim_of(config, model, shape.hidden, shape.heads);
  return shape;
}

std::vector<std::string> read_layer_types(const Section& config, const Model& model, std::int64_t layers) {
  std::vector<std::string> types = listed_types(config, layers);
  if (!types.empty()) return types;
  const std::int64_t period = period_of(config, model.pattern);
  for (std::int64_t i = 0; i < layers; ++i) {
    types.push_back(model.pattern.kind == LayerPattern::Kind::windowed ? windowed_type(config, i, model.pattern.period)
                                                                       : pattern_type(model.pattern, i, period));
  }
  if (const auto attending = config.integers({"attn_layer_indices"})) {
    for (std::int64_t i = 0; i < layers; ++i) {
      const bool listed = std::find(attending->begin(), attending->end(), i) != attending->end();
      types[static_cast<std::size_t>(i)] = listed ? "attention" : "mamba";
    }
  }
  if (model.has(quirk_global_head_dim)) types.back() = "full_attention";  // Gemma 4 forces the last one
  return types;
}

bool attends(const std::string& type) {
  for (const char* other : {"linear", "mamba", "conv", "recurrent", "gated_delta"}) {
    if (type.find(other) != std::string::npos) return false;
  }
  return true;
}

bool slides(const std::string& type) { return type.find("sliding") != std::string::npos; }

Part alike(const LayerPositions& layer, const Shape& shape) {
  Part part;
  part.layers.assign(static_cast<std::size_t>(shape.layers), layer);
  part.length = shape.length;
  part.trained_length = shape.length;
  return part;
}

}  // namespace phasor::spec
