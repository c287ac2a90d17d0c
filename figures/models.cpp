// SPDX-License-Identifier: Apache-2.0
// The built-in models, as the position keys of their published config.json: read like any other file.
#include "figures/models.hpp"

#include <fmt/core.h>

#include <map>

#include "figures/joined.hpp"

namespace phasor::figures {
namespace {

const std::map<std::string, const char*>& built_in_configs() {
  static const std::map<std::string, const char*> all{
      {"llama2", R"({"model_type": "llama", "hidden_size": 4096, "num_attention_heads": 32, "num_key_value_heads": 32,
        "num_hidden_layers": 32, "max_position_embeddings": 4096, "rope_theta": 10000.0})"},
      {"llama3.1", R"({"model_type": "llama", "hidden_size": 4096, "num_attention_heads": 32, "num_key_value_heads": 8,
        "num_hidden_layers": 32, "max_position_embeddings": 131072, "rope_theta": 500000.0,
        "rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                         "original_max_position_embeddings": 8192}})"},
      {"gpt-oss", R"({"model_type": "gpt_oss", "hidden_size": 2880, "head_dim": 64, "num_attention_heads": 64, "num_key_value_heads": 8,
        "num_hidden_layers": 24, "sliding_window": 128, "max_position_embeddings": 131072, "rope_theta": 150000.0,
        "rope_scaling": {"rope_type": "yarn", "factor": 32.0, "original_max_position_embeddings": 4096, "beta_fast": 32.0,
                         "beta_slow": 1.0, "truncate": false}})"},
      {"qwen2.5", R"({"model_type": "qwen2", "hidden_size": 3584, "num_attention_heads": 28, "num_key_value_heads": 4,
        "num_hidden_layers": 28, "max_position_embeddings": 32768, "rope_theta": 1000000.0})"},
  };
  return all;
}

}  // namespace

const std::vector<std::string>& built_in_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> list;
    for (const auto& entry : built_in_configs()) list.push_back(entry.first);
    return list;
  }();
  return names;
}

Result<ModelPositions> built_in_model(const std::string& name, const ReadOptions& options) {
  const auto found = built_in_configs().find(name);
  if (found != built_in_configs().end()) return parse_hf_config(found->second, options);
  return Status::invalid(fmt::format("'{}' is neither a file or folder nor a built-in model, wanted {}", name, model_words()));
}

std::string model_words() {
  return fmt::format("a config.json, a folder that has one, a GGUF file, or {}", joined(built_in_names(), ", "));
}

Result<RotarySpec> rotary_of(const ModelPositions& model, const std::optional<std::int64_t>& layer) {
  const auto layers = static_cast<std::int64_t>(model.layers.size());
  if (layer && (*layer < 0 || *layer >= layers)) {
    return Status::invalid(fmt::format("--layer is {}, the model has {} layers", *layer, layers));
  }
  for (std::int64_t i = layer.value_or(0); i < layers; ++i) {
    const auto& rotary = model.layers[static_cast<std::size_t>(i)].rotary;
    if (rotary) return *rotary;
    if (layer) return Status::invalid(fmt::format("--layer: layer {} does not rotate, wanted one that does", *layer));
  }
  return Status::invalid(fmt::format("the model ({}) does not rotate, wanted one that does", model.model_type));
}

std::string layer_words(const Numbers& layers) {
  std::string text;
  for (std::size_t i = 0; i < layers.size();) {
    std::size_t last = i;
    while (last + 1 < layers.size() && layers[last + 1] == layers[last] + 1) ++last;
    text += fmt::format("{}{}", text.empty() ? "" : ", ", layers[i]);
    if (last > i) text += fmt::format("-{}", layers[last]);
    i = last + 1;
  }
  return fmt::format("{} {}", layers.size() == 1 ? "layer" : "layers", text);
}

}  // namespace phasor::figures
