// SPDX-License-Identifier: Apache-2.0
// Position maps as numbers: where each pass rotates queries and keys, and which keys are its own.
#pragma once

#include "phasor/position_maps.hpp"

namespace phasor::plan {

/// base + n, or a fraction (LeakyReRope's far pass).
struct PassPosition {
  std::int64_t base = 0;
  std::int64_t n = 0;
  double fraction = 0;
  bool whole = true;
};
/// Of a valid map, for a position that is not negative.
PassPosition pass_position(const PositionMap& map, const MapPass& pass, std::int64_t position);

}  // namespace phasor::plan
