// SPDX-License-Identifier: Apache-2.0
// Layers that are alike, together: what explain and diff speak of.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "phasor/model.hpp"

namespace phasor::analysis {

struct LayerGroup {
  std::vector<std::int64_t> layers;  // ascending
  const LayerPositions* layer = nullptr;
  std::string where;  // "layers 0-31"
};

/// Layers that are equal in every field, in the order of their first. The groups point into `layers`.
std::vector<LayerGroup> group_layers(const std::vector<LayerPositions>& layers);

/// The same, or the one layer alone; an error when there is no such layer.
Result<std::vector<LayerGroup>> group_layers(const std::vector<LayerPositions>& layers, const std::optional<std::int64_t>& only);

/// Layers of the same index in both lists, alike in the left and alike in the right.
struct LayerPairs {
  std::vector<std::int64_t> layers;  // ascending
  std::string where;
  const LayerPositions* left = nullptr;
  const LayerPositions* right = nullptr;
};
std::vector<LayerPairs> pair_layers(const std::vector<LayerPositions>& left, const std::vector<LayerPositions>& right);

}  // namespace phasor::analysis
