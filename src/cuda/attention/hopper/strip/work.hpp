// SPDX-License-Identifier: Apache-2.0
// What a forward with tables that queries and keys meet by distance decides on the host.
#pragma once

#include "cuda/attention/hopper/run.hpp"
#include "cuda/attention/hopper/strip/strips.hpp"

namespace phasor::cuda::hopper {

/// Whether a call has such tables.
inline bool has_strips(const Forward& f) { return f.of_queries.table.data != nullptr || f.of_keys.table.data != nullptr; }
/// Of a call with strips whose tensors are taken: whether its tables are.
bool takes_strips(const Forward& forward);
/// Numbers alone; the pointers are null, and the first blocks of queries have strips.
Strips strips_of(const Forward& forward, const Tiles& tiles);

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
