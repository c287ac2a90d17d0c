// SPDX-License-Identifier: Apache-2.0
// One rope dictionary of a config (rope_parameters, rope_scaling, or one layer type's part) to a base, a width and a scaling.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "phasor/rotary.hpp"
#include "spec/hf/models.hpp"
#include "spec/hf/reader.hpp"

namespace phasor::spec {

/// What surrounds a rope dictionary.
struct RopeFrame {
  const Model* model = nullptr;
  std::int64_t head_dim = 0;
  std::int64_t width = 0;                                      // as the file's top level says; 0: by share
  double share = 1;                                            // when the dictionary does not say
  double base = 10000;                                         // likewise
  std::string type = "default";                                // likewise
  std::int64_t length = 0;                                     // max_position_embeddings
  std::optional<std::int64_t> original_length = std::nullopt;  // of the top level, which wins in a flat dictionary
  std::optional<double> attention_factor = std::nullopt;       // for YaRN when the dictionary says none
};

/// What a rope dictionary says.
struct Rope {
  RotarySpec spec;                   // head_dim, rotary_width, base, scaling and axes; the model's own rules are not in it yet
  std::int64_t trained_length = 0;   // 0: it does not say
  std::int64_t extended_length = 0;  // 0: it does not say
  std::optional<double> temperature = std::nullopt;  // llama_4_scaling_beta
  std::optional<Pairing> pairing = std::nullopt;     // where the type says it
};

/// `dict` may be null: then all is as the frame says.
Rope read_rope(Reading& reading, const Section* dict, const RopeFrame& frame);

}  // namespace phasor::spec
