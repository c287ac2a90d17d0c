// SPDX-License-Identifier: Apache-2.0
// Ranges of positions and of distances, both ends included, and those that tiles have.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "cpu/attention/job/attention.hpp"

namespace phasor::attend {

/// None where least is above greatest.
struct PositionRange {
  std::int64_t least = INT64_MAX;
  std::int64_t greatest = INT64_MIN;

  bool empty() const { return least > greatest; }
};
/// Distances, query - key; none where low is above high.
struct DistanceRange {
  std::int64_t low = INT64_MAX;
  std::int64_t high = INT64_MIN;

  bool empty() const { return low > high; }
};

inline PositionRange positions_of(std::span<const TokenTile> tiles, const TileRange& which) {
  PositionRange range;
  for (std::int64_t t = which.first; t < which.end; ++t) {
    const TokenTile& tile = tiles[static_cast<std::size_t>(t)];
    range = {std::min(range.least, tile.min_position), std::max(range.greatest, tile.max_position)};
  }
  return range;
}
inline PositionRange query_positions_of(const AttentionJob& job, const Sequence& sequence) {
  return positions_of(job.query_tiles, {sequence.first_query_tile, sequence.end_query_tile});
}
/// Between the queries of a sequence and some of its keys, seen or not.
inline DistanceRange distances_of(const AttentionJob& job, const Sequence& sequence, const TileRange& key_tiles) {
  const PositionRange queries = query_positions_of(job, sequence);
  const PositionRange keys = positions_of(job.key_tiles, key_tiles);
  if (queries.empty() || keys.empty()) return {};
  return {queries.least - keys.greatest, queries.greatest - keys.least};
}
/// The smallest range that holds both.
inline DistanceRange joined(const DistanceRange& a, const DistanceRange& b) { return {std::min(a.low, b.low), std::max(a.high, b.high)}; }

}  // namespace phasor::attend
