// SPDX-License-Identifier: Apache-2.0
// The formulas of the position maps, one function a map.
#include "plan/position_map.hpp"

#include <algorithm>
#include <limits>

#include "math/positions.hpp"
#include "spec/scheme/rules.hpp"

namespace phasor::plan {
namespace {

/// Near and far.
KeyRange window_keys(std::int64_t window, int pass, std::int64_t query) {
  const std::int64_t first_near = query < window ? 0 : query - window + 1;
  return pass == 0 ? KeyRange{first_near, query + 1} : KeyRange{0, first_near};
}
KeyRange keys(const ReRope& map, int pass, std::int64_t query) { return window_keys(map.window, pass, query); }
KeyRange keys(const LeakyReRope& map, int pass, std::int64_t query) { return window_keys(map.window, pass, query); }
KeyRange keys(const SelfExtend& map, int pass, std::int64_t query) { return window_keys(map.window, pass, query); }
KeyRange keys(const DualChunk& map, int pass, std::int64_t query) {
  const std::int64_t c = map.chunk - map.local;
  const std::int64_t own = query / c * c;
  const std::int64_t before = std::max<std::int64_t>(0, own - c);
  if (pass == 0) return {own, query + 1};
  return pass == 1 ? KeyRange{before, own} : KeyRange{0, before};
}

/// As a sum of parts, so that the fractions of LeakyReRope are rounded once.
double far_distance(const LeakyReRope& map, std::int64_t r) {
  return (whole_number(map.window) + math::divide(whole_number(r - map.window), math::DoubleDouble{map.factor, 0})).high;
}

}  // namespace

PassPosition pass_position(const PositionMap& map, const MapPass& pass, std::int64_t p) {
  return std::visit([&](const auto& m) { return position_in(m, pass, p); }, map);
}

}  // namespace phasor::plan

namespace phasor {

int passes_of(const PositionMap& map) { return std::holds_alternative<DualChunk>(map) ? 3 : 2; }

KeyRange keys_of_pass(const PositionMap& map, int pass, std::int64_t query) {
  if (pass < 0 || pass >= passes_of(map) || query < 0 || query == std::numeric_limits<std::int64_t>::max()) return {};
  if (!spec::check_position_map("keys_of_pass", map)) return {};
  return std::visit([&](const auto& m) { return plan::keys(m, pass, query); }, map);
}

double mapped_distance(const PositionMap& map, std::int64_t query, std::int64_t key) {
  for (int pass = 0; pass < passes_of(map); ++pass) {
    const KeyRange range = keys_of_pass(map, pass, query);
    if (key < range.first || key >= range.end) continue;
    const auto* leaky = std::get_if<LeakyReRope>(&map);
    if (leaky != nullptr && pass == 1) return plan::far_distance(*leaky, query - key);
    const plan::PassPosition q = plan::pass_position(map, {pass, MapSide::queries}, query);
    const plan::PassPosition k = plan::pass_position(map, {pass, MapSide::keys}, key);
    return static_cast<double>(q.base - k.base + q.n);
  }
  return std::numeric_limits<double>::quiet_NaN();
}

}  // namespace phasor
