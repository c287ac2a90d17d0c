// SPDX-License-Identifier: Apache-2.0
// The rope types: for each the keys it knows and the function that reads its scaling.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string_view>

#include "phasor/rotary.hpp"
#include "spec/hf/rope.hpp"

namespace phasor::spec {

/// What the reader of a rope type gets.
struct RopeInput {
  const ReadOptions* options;
  const Section* dict;
  const RopeFrame* frame;
  std::int64_t width;
};

struct RopeScaling {
  Scaling scaling = Unscaled{};
  std::int64_t trained_length = 0;   // 0: it does not say
  std::int64_t extended_length = 0;  // 0: it does not say
};

struct RopeType {
  std::string_view name;
  RopeScaling (*read)(const RopeInput&);
  std::initializer_list<std::string_view> keys;  // besides those that every type knows
  bool whole_head = false;                       // the rotary width is the head, whatever the share
};

/// Null when the name is not known.
const RopeType* find_rope_type(std::string_view name);

}  // namespace phasor::spec
