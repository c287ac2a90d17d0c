// SPDX-License-Identifier: Apache-2.0
// The plan of a rotary spec: a few exact numbers per pair. Made in high precision, never on a hot path.
#pragma once

#include <optional>
#include <vector>

#include "math/phase/phase.hpp"
#include "phasor/rotary.hpp"
#include "plan/device_copies.hpp"
#include "plan/profile/profile.hpp"

namespace phasor::plan {

/// Per-channel frequencies, as kernels read them: lane 0 of every pair, then lane 1 of every pair. Empty where lanes are alike.
struct PerChannelLanes {
  std::vector<math::Step> steps;
  std::vector<double> turn_cos;
  std::vector<double> turn_sin;
  std::vector<std::uint8_t> axis_of_pair;
  std::optional<Profile> profile = std::nullopt;
};

struct RotaryPlan {
  RotarySpec spec;                  // as given, rotary_width filled in
  std::vector<math::Step> steps;    // R/2; with given directions (axes, heads, R/2), and so are the lists below
  std::vector<double> frequencies;  // nearest float64 of each exact frequency
  // cos and sin of one position's turn, nearest float64: what the recurrence over consecutive rows multiplies by.
  std::vector<double> turn_cos;
  std::vector<double> turn_sin;
  // Pairs before the trailing ones that never turn (proportional scaling): only these are computed.
  std::int64_t turning_pairs = 0;
  double amplitude = 1;
  double inverse_amplitude = 1;  // nearest float64 of 1 / amplitude
  double softmax_scale = 1;
  std::int64_t axes = 1;                   // of a position
  std::int64_t heads = 1;                  // with ladders of their own; 1: every head alike
  std::vector<std::uint8_t> axis_of_pair;  // R/2; empty where one axis turns all or every axis turns each pair
  PerChannelLanes per_channel;
  std::optional<Profile> profile = std::nullopt;  // none: exact
  DeviceCopies copies;                            // of the lists, on devices
};

/// Checks the spec (spec/rotary.hpp) and computes. Lets no exception out.
Result<RotaryPlan> make_rotary_plan(const RotarySpec& spec);

}  // namespace phasor::plan
