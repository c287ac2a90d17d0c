// SPDX-License-Identifier: Apache-2.0
// Shapes and layer types of a config, and the readers of each encoding.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "phasor/model.hpp"
#include "spec/hf/models.hpp"
#include "spec/hf/reader.hpp"

namespace phasor::spec {

/// The largest sizes that are believed. A list of factors is copied into every layer: together they bound the memory.
inline constexpr std::int64_t most_layers = 1024;
inline constexpr std::int64_t most_channels = 16384;  // of a head
inline constexpr std::int64_t most_positions = std::int64_t{1} << 48;

struct Shape {
  std::int64_t hidden = 0;
  std::int64_t heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t layers = 0;
  std::int64_t length = 0;  // positions; 0: not said
};
Shape read_shape(const Section& config, const Model& model);

/// One name per layer; all empty where neither file nor model has layer types.
std::vector<std::string> read_layer_types(const Section& config, const Model& model, std::int64_t layers);
/// Linear attention, convolutions and the like know no positions.
bool attends(const std::string& type);
bool slides(const std::string& type);

/// A part of a model, read.
struct Part {
  std::vector<LayerPositions> layers;
  std::vector<ModelTower> towers;
  std::int64_t trained_length = 0;
  std::int64_t length = 0;
};
Part read_rotary(Reading& reading, const Section& config, const Model& model);
Part read_patches(Reading& reading, const Section& config, const Model& model);    // encodings axial to dinov3
Part read_unrotated(Reading& reading, const Section& config, const Model& model);  // the others
/// By model.encoding.
Part read_part(Reading& reading, const Section& config, const Model& model);

/// So many layers alike.
Part alike(const LayerPositions& layer, const Shape& shape);

}  // namespace phasor::spec
