// SPDX-License-Identifier: Apache-2.0
// Position maps as numbers: where each pass rotates queries and keys, and which keys are its own.
#pragma once

#include "math/positions.hpp"
#include "phasor/position_maps.hpp"

namespace phasor::plan {

/// base + n, or a fraction (LeakyReRope's far pass).
struct PassPosition {
  std::int64_t base = 0;
  std::int64_t n = 0;
  double fraction = 0;
  bool whole = true;
};

// ---- One function a map, for every device ----

/// Exact: of two halves.
PHASOR_HD inline math::DoubleDouble whole_number(std::int64_t n) {
  const std::uint64_t size = n < 0 ? 0 - static_cast<std::uint64_t>(n) : static_cast<std::uint64_t>(n);
  const math::DoubleDouble magnitude =
      math::quick_two_sum(static_cast<double>(size >> 32) * 0x1p32, static_cast<double>(size & 0xffffffffU));
  return n < 0 ? -magnitude : magnitude;
}

PHASOR_HD inline PassPosition position_in(const ReRope& map, const MapPass& pass, std::int64_t p) {
  if (pass.pass == 0) return {.base = p};
  return {.base = pass.side == MapSide::queries ? map.window : 0};
}
/// Far: (m + window (factor - 1)) / factor and n / factor, whose difference is window + (r - window) / factor.
PHASOR_HD inline PassPosition position_in(const LeakyReRope& map, const MapPass& pass, std::int64_t p) {
  if (pass.pass == 0) return {.base = p};
  const math::DoubleDouble ahead = whole_number(map.window) * (math::DoubleDouble{map.factor, 0} + math::DoubleDouble{-1, 0});
  const math::DoubleDouble stretched = pass.side == MapSide::queries ? whole_number(p) + ahead : whole_number(p);
  return {.fraction = math::divide(stretched, math::DoubleDouble{map.factor, 0}).high, .whole = false};
}
PHASOR_HD inline PassPosition position_in(const SelfExtend& map, const MapPass& pass, std::int64_t p) {
  if (pass.pass == 0) return {.base = p};
  return {.base = p / map.group, .n = pass.side == MapSide::queries ? map.window - map.window / map.group : 0};
}
PHASOR_HD inline PassPosition position_in(const DualChunk& map, const MapPass& pass, std::int64_t p) {
  const std::int64_t c = map.chunk - map.local;
  if (pass.side == MapSide::keys || pass.pass == 0) return {.base = p % c};
  if (map.critical) return {.base = p % c, .n = pass.pass == 1 ? c : map.chunk};
  const std::int64_t at = pass.pass == 1 ? p % c + c : 2 * c - 1;
  return {.base = at < map.chunk ? at : map.chunk};
}

/// Of a valid map, for a position that is not negative.
PassPosition pass_position(const PositionMap& map, const MapPass& pass, std::int64_t position);

}  // namespace phasor::plan
