// SPDX-License-Identifier: Apache-2.0
// Axes of a rotary spec: which axis turns which pair, and whether axes, segments, lanes and unit fit the rest of the spec.
#pragma once

#include <vector>

#include "phasor/rotary.hpp"

namespace phasor::spec {

inline constexpr std::int64_t kMostAxes = 4;

/// Axes, segments, lanes and unit against the width, the pairing and the scaling. Needs a sound width.
Status check_axes(const RotarySpec& spec);

/// How many axes the positions of a sound spec have.
std::int64_t axis_count(const RotarySpec& spec);

/// The axis of each pair of a sound spec, R/2 of them; all 0 where there is one axis or every pair turns along a direction.
std::vector<std::uint8_t> axis_of_pair(const RotarySpec& spec);

/// How many pairs each axis turns.
std::vector<std::int64_t> pairs_of_axis(const RotarySpec& spec);

}  // namespace phasor::spec
