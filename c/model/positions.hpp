// SPDX-License-Identifier: Apache-2.0
// A model's positions between C and C++.
#pragma once

#include <vector>

#include "phasor/c/model.h"
#include "phasor/model.hpp"

namespace phasor::c {

ModelPositions model_positions_of(const char* where, const phasor_model_positions* positions);

/// A layer as structs of C, whose lists and texts are the layer's own.
struct LayerStructs {
  phasor_layer_positions layer{};
  phasor_rotary_spec rotary{};
  phasor_scaling scaling{};
  phasor_model_bias bias{};
  phasor_model_additive additive{};
  phasor_query_temperature query_temperature{};
  phasor_model_dual_chunk dual_chunk{};
};

/// Layers, and the list of pointers to them that C takes.
class LayerList {
 public:
  explicit LayerList(const std::vector<LayerPositions>& layers);
  const std::vector<const phasor_layer_positions*>& pointers() const { return pointers_; }

 private:
  std::vector<LayerStructs> structs_;
  std::vector<const phasor_layer_positions*> pointers_;
};

/// A model as structs of C; the model must live, and stay where it is, as long as they.
class ModelStructs {
 public:
  explicit ModelStructs(const ModelPositions& model);
  const phasor_model_positions& positions() const { return positions_; }
  /// Checks both numbers; tower -1 has the text layers.
  const phasor_layer_positions& layer(const char* where, std::int64_t tower, std::size_t index) const;

 private:
  LayerList layers_;
  std::vector<LayerList> tower_layers_;
  std::vector<phasor_model_tower> towers_;
  std::vector<const phasor_model_tower*> tower_pointers_;
  std::vector<const char*> warnings_;
  phasor_model_positions positions_{};
};

}  // namespace phasor::c
