// SPDX-License-Identifier: Apache-2.0
// The numbers of a numerics profile: what a peer holds in float32, each step of its formula rounded as it rounds, every elementary function
// correctly rounded.
#pragma once

#include <cstdint>
#include <vector>

#include "math/angle.hpp"
#include "phasor/rotary.hpp"

namespace phasor::plan {

struct Profile {
  // Angle = (position / divisor * factor) * frequency, in float32; empty where the angles are a running product.
  std::vector<float> frequencies = {};
  float position_divisor = 1;
  float position_factor = 1;
  std::vector<math::RunningPair> running = {};
  float amplitude = 1;
  float inverse_amplitude = 1;
};

/// Which step of which geometric ladder a pair is on: base^(-index / count).
struct Rung {
  std::int64_t index;
  std::int64_t count;
};

/// The rung of every pair: of one ladder over all of them, of one for each axis, or of one dealt out (AxisLadder). `axis_of_pair` has an
/// entry for each pair, or none where there is one axis.
std::vector<Rung> rungs_of(const RotarySpec& spec, const std::vector<std::uint8_t>& axis_of_pair);

/// Per-channel frequencies: the numbers of lane 0 of every pair, then those of lane 1; channel c of a segment has those of its pair c mod
/// pairs.
Profile per_channel(const Profile& profile, std::int64_t segments);

/// Needs a spec that passes spec::check, and numerics other than exact; a rung for every pair. An error where the peer has no such scaling.
Result<Profile> make_profile(const RotarySpec& spec, const std::vector<Rung>& rungs);

}  // namespace phasor::plan
