// SPDX-License-Identifier: Apache-2.0
// Angles the way the peers form them, in float32: what exact angles are compared with. Not used to rotate anything for a user.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>

#include "phasor/rotary.hpp"

namespace phasor::analysis {

/// float32(position) * float32(frequency), rounded to float32.
inline float float32_angle(std::int64_t position, double frequency) { return static_cast<float>(position) * static_cast<float>(frequency); }

struct CosSin {
  double cos = 0;
  double sin = 0;
};

/// Of a float32 angle, right to a few units of double: all the error that is left is the angle's. The position is that of every axis, so
/// along a direction the axes' angles add up.
inline CosSin float32_cos_sin(const Rotary& rotary, std::int64_t position, std::int64_t pair) {
  const auto pairs = static_cast<std::size_t>(rotary.rotary_width() / 2);
  float angle = 0;
  for (auto i = static_cast<std::size_t>(pair); i < rotary.frequencies().size(); i += pairs) {
    angle += float32_angle(position, rotary.frequencies()[i]);
  }
  return {rotary.amplitude() * std::cos(static_cast<double>(angle)), rotary.amplitude() * std::sin(static_cast<double>(angle))};
}

/// These functions look at one head for all.
inline Status check_heads(const char* where, const Rotary& rotary) {
  const auto* directions = std::get_if<GivenDirections>(&rotary.spec().scaling);
  if (directions == nullptr || directions->heads == 1) return {};
  return Status::unsupported(std::string(where) + ": " + std::to_string(directions->heads) +
                             " heads have directions of their own, wanted one for all");
}

/// Where a score is not a function of the distance.
inline Status check_relative(const char* where, const Rotary& rotary) {
  if (rotary.spec().lanes == Lanes::alike) return {};
  return Status::unsupported(std::string(where) +
                             ": lanes are per_channel_frequencies, so that scores depend on both positions, wanted lanes alike");
}

}  // namespace phasor::analysis
