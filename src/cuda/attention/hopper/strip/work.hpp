// SPDX-License-Identifier: Apache-2.0
// What a forward with tables that queries and keys meet by distance decides on the host.
#pragma once

#include "cuda/attention/hopper/run.hpp"
#include "cuda/attention/hopper/strip/strips.hpp"

namespace phasor::cuda::hopper {

/// What strips take at a time: blocks of queries that have more are done one part after the other.
constexpr std::int64_t kMostStripBytes = std::int64_t{512} << 20;

/// Whether a call has such tables.
inline bool has_strips(const Forward& f) { return f.of_queries.table.data != nullptr || f.of_keys.table.data != nullptr; }
/// Of a call with strips whose tensors are taken: whether its tables are.
bool takes_strips(const Forward& forward);
/// Numbers alone; the pointers are null, and as many of the first blocks of queries have strips as there is room for.
Strips strips_of(const Forward& forward, const Tiles& tiles, std::int64_t most_bytes = kMostStripBytes);
/// Of a call whose first part is this one: how many parts there are, and part n, as long as the first but for the last.
int strip_parts(const Tiles& tiles, const Strips& first);
Strips strip_part(const Tiles& tiles, const Strips& first, int n);

/// From the beginning of what strips take of the workspace.
struct StripLayout {
  std::int64_t tables[2];  // of queries, of keys: (heads or 1, distances from the left end to the right, channels)
  std::int64_t rows;
  std::int64_t columns;
  std::int64_t values;
  std::int64_t bytes;
};
StripLayout strip_layout_of(const Forward& forward, const Tiles& tiles, const Strips& strips);

}  // namespace phasor::cuda::hopper
