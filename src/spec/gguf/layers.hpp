// SPDX-License-Identifier: Apache-2.0
// Which kind each layer of a GGUF model is: sliding, full, without attention, rotated or not.
#pragma once

#include <cstdint>
#include <vector>

#include "spec/gguf/architectures.hpp"
#include "spec/gguf/keys.hpp"

namespace phasor::spec {

struct GgufLayer {
  bool sliding = false;
  bool attends = true;
  bool rotated = true;
  bool compressed = false;  // DeepSeek-V4's other base
};

struct GgufLayers {
  std::vector<GgufLayer> layers;
  std::int64_t window = 0;
  bool some_slide = false;
};

/// Throws ReadError.
GgufLayers layers_of(const GgufKeys& keys, const GgufArchitecture& architecture);

}  // namespace phasor::spec
