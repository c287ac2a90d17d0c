// SPDX-License-Identifier: Apache-2.0
// What a launch of attention on Hopper decides on the host.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda/attention/hopper/run.hpp"
#include "cuda/attention/hopper/tiles.hpp"

namespace phasor::cuda::hopper {

/// Index into kWidths of the least that has room; kWidthsCount: there is none.
int widths_for(std::int64_t width, std::int64_t value_width);

/// Of a call: a table needs room beside the keys.
int widths_for(const Forward& forward);

/// Whether rows of the table pass with the keys (window/); else `Clipped` keeps all products with it.
bool has_windows(const Forward& forward);
/// The furthest distances that are seen: of keys before queries, and behind.
struct Seen {
  std::int64_t left;
  std::int64_t right;
};
Seen seen_by(const Forward& forward);
/// Whether windows read a copy of the table that has a row for each of them, since there are more than rows.
bool needs_spread(const Forward& forward);

Tiles tiles_of(const Forward& forward);

/// Where in the workspace, once that is aligned to kAlignment, things are.
constexpr std::int64_t kAlignment = 16;
inline std::uintptr_t aligned(const void* workspace) {
  return (reinterpret_cast<std::uintptr_t>(workspace) + kAlignment - 1) / kAlignment * kAlignment;
}
struct Layout {
  std::int64_t windows;  // behind the counter of work
  std::int64_t far;
  std::int64_t norms;        // (batch, key heads): the largest of any key
  std::int64_t first_tiles;  // (batch, heads, blocks of queries)
  std::int64_t columns;      // of ShiftSums
  std::int64_t lines;
  std::int64_t rows;    // of a table: (heads or 1, distances that are seen, channels)
  std::int64_t strips;  // strip/work.hpp
  std::int64_t bytes;
};
/// Extents and ends alone; the pointers are null.
Windows windows_of(const Forward& forward, const Tiles& tiles);
ShiftSums sums_of(const Forward& forward, const Tiles& tiles);
Layout layout_of(const Forward& forward, const Tiles& tiles);
/// Whether tiles are looked for that need not be visited: where every query that sees a key sees its own.
bool may_skip(const Forward& forward);

/// Whether a head is a number of panels of 64 channels.
inline bool is_whole(const ConstTensorView& view) { return view.shape[3] % 64 == 0; }
/// A tensor as a map of the copy engine has it: (channel in a panel, token, panel, head, batch row), strides in bytes, but for channels.
struct MapShape {
  std::uint64_t sizes[5];
  std::uint64_t strides[4];
};
/// An axis of one element has a stride that any map takes.
MapShape map_shape(const ConstTensorView& view);

}  // namespace phasor::cuda::hopper
