// SPDX-License-Identifier: Apache-2.0
// Position maps: methods that show attention other distances than the true ones, as plain rotations of which each score takes one.
#pragma once

#include <cstdint>
#include <variant>

#include "phasor/positions.hpp"
#include "phasor/result.hpp"

namespace phasor {

/// Distance r = query - key below window: r; else window.
struct ReRope {
  std::int64_t window = 0;
};
/// Below window: r; else window + (r - window) / factor.
struct LeakyReRope {
  std::int64_t window = 0;
  double factor = 1;
};
/// Below window: r; else floor(query / group) - floor(key / group) + window - floor(window / group).
struct SelfExtend {
  std::int64_t window = 0;
  std::int64_t group = 1;
};
/// Dual chunk attention, with chunks of c = chunk - local: keys are at key mod c; queries at query mod c for keys of their own chunk
/// (pass 0), at min(query mod c + c, chunk) for the chunk before (1), at min(2 c - 1, chunk) for older ones (2).
/// critical: 1 and 2 are at query mod c + c and query mod c + chunk instead, as vLLM scores the tokens that sparse attention keeps.
struct DualChunk {
  std::int64_t chunk = 0;
  std::int64_t local = 0;
  bool critical = false;
};
using PositionMap = std::variant<ReRope, LeakyReRope, SelfExtend, DualChunk>;

/// The distance that a query sees a key at; NaN for a key behind its query, negative positions and maps that are not valid.
double mapped_distance(const PositionMap& map, std::int64_t query, std::int64_t key);

// An engine rotates queries and keys once a pass, at the positions fill_pass_positions gives, and takes the score of query m and key
// n from the one pass whose keys_of_pass(m) holds n. Every key from 0 to m is in exactly one.

/// 3 for DualChunk, else 2: near and far.
int passes_of(const PositionMap& map);
/// Keys first to end - 1.
struct KeyRange {
  std::int64_t first = 0;
  std::int64_t end = 0;
};
/// The keys at which a query takes its scores from `pass`, up to its own position; empty for what mapped_distance has no value for.
KeyRange keys_of_pass(const PositionMap& map, int pass, std::int64_t query);

enum class MapSide : std::uint8_t { queries, keys };
struct MapPass {
  int pass = 0;
  MapSide side = MapSide::queries;
};
/// Where to rotate the tokens at positions `at` (integers, not negative, of the shape of out, which may be them). LeakyReRope's far
/// pass has fractions (the float64 nearest): out must be f64 there.
Status fill_pass_positions(const PositionsView& out, const PositionMap& map, const MapPass& pass, const Positions& at);

}  // namespace phasor
