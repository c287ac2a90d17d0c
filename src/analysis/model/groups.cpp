// SPDX-License-Identifier: Apache-2.0
// Layers that are alike, together. Alike means: the same JSON, which has every field.
#include "analysis/model/groups.hpp"

#include <algorithm>
#include <map>

#include "analysis/model/json.hpp"
#include "analysis/model/words.hpp"

namespace phasor::analysis {
namespace {

std::string key_of(const LayerPositions& layer) { return dumped(layer_json(layer)); }

/// The indices of equal keys, in the order of their first.
std::vector<std::vector<std::int64_t>> alike(const std::vector<std::string>& keys) {
  std::vector<std::vector<std::int64_t>> groups;
  std::map<std::string, std::size_t> group_of;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const auto [at, is_new] = group_of.emplace(keys[i], groups.size());
    if (is_new) groups.emplace_back();
    groups[at->second].push_back(static_cast<std::int64_t>(i));
  }
  return groups;
}

}  // namespace

std::vector<LayerGroup> group_layers(const std::vector<LayerPositions>& layers) {
  std::vector<std::string> keys;
  keys.reserve(layers.size());
  for (const LayerPositions& layer : layers) keys.push_back(key_of(layer));
  std::vector<LayerGroup> groups;
  for (auto& indices : alike(keys)) {
    const LayerPositions* layer = &layers[static_cast<std::size_t>(indices.front())];
    std::string where = indices_in_words("layer", indices);
    groups.push_back({std::move(indices), layer, std::move(where)});
  }
  return groups;
}

Result<std::vector<LayerGroup>> group_layers(const std::vector<LayerPositions>& layers, const std::optional<std::int64_t>& only) {
  if (!only) return group_layers(layers);
  const auto count = static_cast<std::int64_t>(layers.size());
  if (*only < 0 || *only >= count) {
    return Status::invalid("explain: layer is " + std::to_string(*only) + ", the model has " + counted(count, "layer"));
  }
  return std::vector<LayerGroup>{{{*only}, &layers[static_cast<std::size_t>(*only)], indices_in_words("layer", {*only})}};
}

std::vector<LayerPairs> pair_layers(const std::vector<LayerPositions>& left, const std::vector<LayerPositions>& right) {
  std::vector<std::string> keys;
  for (std::size_t i = 0; i < std::min(left.size(), right.size()); ++i) keys.push_back(key_of(left[i]) + "\n" + key_of(right[i]));
  std::vector<LayerPairs> pairs;
  for (const auto& indices : alike(keys)) {
    const auto first = static_cast<std::size_t>(indices.front());
    pairs.push_back({indices, indices_in_words("layer", indices), &left[first], &right[first]});
  }
  return pairs;
}

}  // namespace phasor::analysis
