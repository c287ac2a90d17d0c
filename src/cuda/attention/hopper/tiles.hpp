// SPDX-License-Identifier: Apache-2.0
// How a call is cut into blocks of queries and tiles of keys, and which tiles a block visits: host and device.
#pragma once

#include <cstdint>

#include "math/portable.hpp"

namespace phasor::cuda::hopper {

/// What one kernel is made for, and what suits it.
struct Widths {
  int width;  // up to it: missing channels are zeros
  int value_width;
  int keys;        // of a tile
  int warpgroups;  // consumers, of 64 queries each
  bool turns;      // they take turns at asking for products
  int short_keys;  // where no more keys of the first tile are seen, it has so many: the others are not computed; 0: never

  constexpr int queries() const { return 64 * warpgroups; }
};
/// By what fits into 227 KiB and 512 threads' registers; 192 / 128 is MLA's. Measured on an H200: docs/design/cuda.md.
inline constexpr Widths kWidths[] = {
    {64, 64, 128, 3, true, 64},     // plain, or with a bias: this one and the next three
    {128, 128, 176, 2, false, 64},  //
    {192, 128, 128, 2, false, 0},   //
    {256, 256, 64, 2, false, 0},    //
    {128, 128, 144, 2, false, 0},   // beside products with a clipped table
    {64, 64, 96, 2, false, 0},      // beside windows of a table, and the next
    {128, 128, 80, 2, false, 0},
};
inline constexpr int kWidthsCount = sizeof(kWidths) / sizeof(kWidths[0]);
inline constexpr int kPlainWidths = 4, kTableWidths = 4, kWindowWidths = 5;
/// Channels of features that meet a table in the place of queries: one step of a product.
inline constexpr int kMostFeatures = 16;

/// No token is further away, and sums of three such numbers are still integers of 32 bits.
constexpr int kFar = 1 << 29;

struct Tiles {
  int queries;
  int keys;
  int heads;
  int batch;
  int heads_of_key;  // query heads that share a key head
  int together;      // heads walked together, so that their keys and values stay in the L2
  int left;          // key >= query position - left; kFar: any
  int right;         // key <= query position + right
  int block_queries;
  int tile_keys;

  PHASOR_HD int offset() const { return keys - queries; }  // query i stands there beyond i
  PHASOR_HD int blocks() const { return (queries + block_queries - 1) / block_queries; }
  PHASOR_HD int work() const { return blocks() * heads * batch; }
};

/// A block of queries of one head.
struct Work {
  int row;
  int head;
  int batch;
  int number = 0;
};
PHASOR_HD inline Work work_at(const Tiles& t, int number) {
  const int blocks = t.blocks();
  const int all = t.heads * t.batch;
  const int first = number / (blocks * t.together) * t.together;
  const int width = t.together < all - first ? t.together : all - first;
  const int inside = number - first * blocks;
  const int block = inside / width;
  const int head = first + inside % width;
  // Under a causal mask later blocks see more keys: the longest first, so that the last blocks to run are short.
  return {(t.right < t.keys ? blocks - 1 - block : block) * t.block_queries, head % t.heads, head / t.heads, number};
}

/// A tile of scores as a thread sees it.
struct Place {
  int block_row;  // number of the block's first query
  int group_row;  // of the warpgroup's
  int row;        // of the thread's
  int key;        // number of the tile's first key
};

/// Of (batch, heads, blocks).
PHASOR_HD inline int block_index(const Tiles& t, const Work& w) {
  return (w.batch * t.heads + w.head) * t.blocks() + w.row / t.block_queries;
}

/// Tiles of keys [first, end) that some query of a block sees; at least one, which is masked wholly where none sees any. In the last tile
/// only so many keys are seen.
struct TileSpan {
  int first;
  int end;
  int keys_in_last;
};
PHASOR_HD inline TileSpan tiles_of(const Tiles& t, int row) {
  const int last_row = (row + t.block_queries < t.queries ? row + t.block_queries : t.queries) - 1;
  int first = row + t.offset() - t.left;
  int last = last_row + t.offset() + t.right;
  if (first < 0) first = 0;
  if (last > t.keys - 1) last = t.keys - 1;
  if (last < first) return {0, 1, 0};
  return {first / t.tile_keys, last / t.tile_keys + 1, last % t.tile_keys + 1};
}

/// The same without tiles before `first`; the last one stays.
PHASOR_HD inline TileSpan from_tile(TileSpan span, int first) {
  if (first > span.end - 1) first = span.end - 1;
  if (first > span.first) span.first = first;
  return span;
}

/// Whether some of `rows` queries from `row` on do not see some key of the tile that begins at `key`.
PHASOR_HD inline bool is_partial(const Tiles& t, int row, int rows, int key) {
  const int position = row + t.offset();
  const int last = position + t.right < t.keys - 1 ? position + t.right : t.keys - 1;
  return key + t.tile_keys - 1 > last || key < position + rows - 1 - t.left;
}

/// A bias by distance as kernels read it: values of key - row (the query's number, not its position) from `first` on, `length` of them, in
/// two copies, the second one place earlier; so a pair that begins at an odd place is aligned in one of them.
struct Windows {
  const float* values;   // (heads or 1, 2, length), divided by the scale
  const float* far;      // (heads or 1, 2): the value of all distances beyond the left, and the right, end
  std::int64_t of_head;  // stride of values, 0: shared
  std::int64_t far_of_head;
  int first;
  int length;
  int far_left;  // in distances
  int far_right;
  int slots;  // of a backward's sums by distance, of each head: block n of keys waits for block n - slots
};
/// A table by key - query: rows -left to right, those at the ends for all beyond.
struct Clips {
  static constexpr int kMostRows = 129;
  int left;
  int right;
  bool by_head;
  float factor;  // its scale over that of q . k

  PHASOR_HD int rows() const { return left + right + 1; }
  /// Products of a query with rows lie from place 2 on, or one further (`odd`), and are repeated outwards: the last pair of places that is
  /// read, for all keys further right. Pairs from 2 to it are of one key each.
  PHASOR_HD int end(int odd) const { return (rows() + 3 + odd) & ~1; }
};
PHASOR_HD inline bool is_left_of_clips(const Tiles& t, const Clips& c, int row, int key) {
  return row + t.offset() - (key + t.tile_keys - 1) >= c.left;
}
PHASOR_HD inline bool is_right_of_clips(const Tiles& t, const Clips& c, int row, int rows, int key) {
  return key - (row + rows - 1 + t.offset()) >= c.right;
}

/// A table whose rows pass with the keys: queries meet its rows in blocks of as many as a tile has keys. Block 0 begins at the distance of
/// a block of queries' first one from the first key of its last tile, the one that is visited first; each next one lies before it. A query
/// that is i behind the first reads i further down, so a tile reads so many blocks, from its own number on.
PHASOR_HD constexpr int window_blocks(int queries, int keys) { return 1 + (queries - 2 + keys - 1) / keys; }
/// Where block n begins, as key - row; queries of odd number read one place earlier.
PHASOR_HD inline int block_begin(const Tiles& t, int row, const TileSpan& span, int n) { return (span.end - 1 - n) * t.tile_keys - row; }
/// The first block that some query sees a row of, among those that the first tile reads.
PHASOR_HD inline int first_window_block(const Tiles& t, int row, const TileSpan& span) {
  const int blocks = window_blocks(t.block_queries, t.tile_keys);
  int n = 0;
  while (n < blocks && block_begin(t, row, span, n) - 1 - t.offset() > t.right) ++n;
  return n;
}

/// The first tile of keys, of those that a block of queries visits, that is no further than `left` from some query: rows of a table that
/// ends there meet nobody in the tiles before it. At most the last one.
PHASOR_HD inline int first_tile_with_rows(const Tiles& t, int row, const TileSpan& span, int left) {
  const int key = row + t.offset() - left;  // the first one that is near
  const int tile = key <= 0 ? 0 : key / t.tile_keys;
  return tile < span.first ? span.first : tile > span.end - 1 ? span.end - 1 : tile;
}

/// Tiles of keys in the place of those that meet no rows, of another size: from `end` down, so the last one may begin before the first key
/// that is seen, below 0, too.
constexpr int kBeyondKeys = 176;
struct BeyondRows {
  int end;
  int count;

  PHASOR_HD int key(int index) const { return end - (index + 1) * kBeyondKeys; }
};
PHASOR_HD inline BeyondRows beyond_rows(const Tiles& t, const TileSpan& span, int with_rows) {
  return {with_rows * t.tile_keys, ((with_rows - span.first) * t.tile_keys + kBeyondKeys - 1) / kBeyondKeys};
}

/// Sums that what is added to queries makes with keys, and with rows of a table: numbers of a key, and of key - row from `first` on, these
/// in two copies, the second one place later.
struct ShiftSums {
  const float* columns;  // (batch, heads, columns_length); null: nothing is added
  const float* lines;    // (heads, 2, lines_length)
  int columns_length;
  int lines_length;
  int first;
};

/// Whether all of `rows` queries from `row` on are so far from every key of the tile at `key` that one value serves.
PHASOR_HD inline bool is_far_left(const Tiles& t, const Windows& w, int row, int key) {
  return row + t.offset() - (key + t.tile_keys - 1) >= w.far_left;
}
PHASOR_HD inline bool is_far_right(const Tiles& t, const Windows& w, int row, int rows, int key) {
  return key - (row + rows - 1 + t.offset()) >= w.far_right;
}

}  // namespace phasor::cuda::hopper
