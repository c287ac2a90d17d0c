// SPDX-License-Identifier: Apache-2.0
// What a launch of a backward on Hopper decides on the host.
#pragma once

#include "cuda/attention/hopper/backward/run.hpp"
#include "cuda/attention/hopper/backward/tiles.hpp"
#include "cuda/attention/hopper/work.hpp"

namespace phasor::cuda::hopper {

/// What parts of a table's gradient may take: there are as many as batch rows and heads at least.
constexpr std::int64_t kMostPartBytes = std::int64_t{512} << 20;

/// Index into kBackwardWidths of the least that has room; kBackwardWidthsCount: there is none.
int backward_widths_for(std::int64_t width, std::int64_t value_width);
KeyTiles key_tiles_of(const Backward& backward);
/// Of a table; rows beyond what is seen are left out. Of tables by distance: both, and one.
Clips clips_of(const Backward& backward, const KeyTiles& tiles);
Clips clips_of(const Backward& backward, const KeyTiles& tiles, int side);
inline bool has_tables(const Backward& b) { return b.tables[0].rows.data != nullptr || b.tables[1].rows.data != nullptr; }
inline bool has_rows(const Backward& b) { return b.forward.table.data != nullptr || has_tables(b); }
/// Of 32 bits: strips of products with tables, and what features leave of the gradient of a table by distance.
std::int64_t strip_numbers(const KeyTiles& tiles, const Clips& clips);
std::int64_t band_part_numbers(const Backward& backward, const KeyTiles& tiles, int side);
struct LineSpan;
/// A head's features are dealt to so many blocks for the gradient of a table by distance, by the shape alone.
int band_parts_of(const KeyTiles& tiles, const LineSpan& span, int side);
/// Extents and ends alone; the pointers are null.
Windows windows_of(const Backward& backward, const KeyTiles& tiles);

/// What a table by distance has of the workspace: BandWork.
struct BandLayout {
  std::int64_t lines;
  std::int64_t line_rows;
  std::int64_t beyond;
  std::int64_t parts;
};
/// Where in the workspace, once that is aligned to kAlignment, things are. What is to be zeros lies together, at the beginning.
struct BackwardLayout {
  std::int64_t turns;  // behind the counter of work
  std::int64_t done;
  std::int64_t slots;
  std::int64_t far;
  std::int64_t zeros;  // so many bytes
  std::int64_t lse;
  std::int64_t delta;
  std::int64_t windows;
  std::int64_t far_values;
  std::int64_t dq;
  std::int64_t strips;    // of a table
  std::int64_t parts;     // of its gradient
  std::int64_t key_ends;  // of KeySide, and the next two
  std::int64_t key_sums;
  std::int64_t dk;
  BandLayout band[2];
  std::int64_t shifted[2];     // queries with what is added to them: (B, H, queries, channels) of 16 bits
  std::int64_t shift_sums[2];  // BandWork::shift_sums
  std::int64_t bytes;
};
BackwardLayout layout_of(const Backward& backward, const KeyTiles& tiles, const Windows& windows);
/// Queries where they meet keys, or rows: as they are given, or a copy in a workspace that begins here.
ConstTensorView queries_of(const Backward& backward, const BackwardLayout& layout, const std::byte* begin, int shift);

}  // namespace phasor::cuda::hopper
