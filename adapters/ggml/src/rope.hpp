// SPDX-License-Identifier: Apache-2.0
// What a ROPE node of ggml says, as values, and which nodes this backend takes.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "ggml.h"

namespace phasor_ggml {

/// The parameters of a node that its plan depends on: with the factors' values the key of a plan. All numbers are finite.
struct Rope {
  std::int64_t head_dim = 0;
  std::int32_t width = 0;  // "n_dims"; a vision rope turns twice as many channels
  std::int32_t offset = 0;
  std::int32_t mode = 0;  // GGML_ROPE_TYPE_*
  std::int32_t original_length = 0;
  float base = 0;
  float scale = 0;      // "freq_scale"
  float extension = 0;  // "ext_factor": 0 is no YaRN
  float attention = 0;  // "attn_factor"
  float beta_fast = 0;
  float beta_slow = 0;
  std::array<std::int32_t, 4> sections = {};
  bool has_factors = false;

  bool operator==(const Rope&) const = default;
  bool is_vision() const { return mode == GGML_ROPE_TYPE_VISION; }
  /// Four positions a token: time, height, width, one more.
  bool has_axes() const { return (mode & GGML_ROPE_TYPE_MROPE) != 0; }
  std::int64_t pairs() const { return is_vision() ? width : width / 2; }
};

/// The node's parameters; nothing where its tensors or numbers are such as this backend leaves to another.
std::optional<Rope> read_rope(const ggml_tensor& node);

}  // namespace phasor_ggml
