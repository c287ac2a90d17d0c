// SPDX-License-Identifier: Apache-2.0
// A table by distance by lines, and what is near it. Host and device.
//
// A table meets features: queries, or keys. Seen from a feature, z is how far behind it the other one's number is: key - query on the side
// of queries, query - key on that of keys. The table is laid out by z, a line for each: rules are followed there alone. Lines come in
// chunks of 16, and so do features and what they meet; a block of 16 x 16 scores has the lines of two chunks.
#pragma once

#include "cuda/attention/hopper/backward/tiles.hpp"

namespace phasor::cuda::hopper {

constexpr int kChunkLines = 16;
constexpr int kOfQueries = 0, kOfKeys = 1;

/// Where a table's lines differ: those of z below 16 low are all its first, from 16 high on its last.
struct LineSpan {
  int low;
  int high;

  PHASOR_HD int chunks() const { return high - low; }
  /// A warp makes the gradient of two chunks; behind them two lines have what lies beyond the ends.
  PHASOR_HD int units() const { return (chunks() + 1) / 2; }
  PHASOR_HD int lines() const { return 2 * kChunkLines * units() + 2; }
};
PHASOR_HD inline int chunk_of(int z) { return z >= 0 ? z / kChunkLines : -((-z + kChunkLines - 1) / kChunkLines); }
/// Of a table that is one row for all r >= left, and for all -r >= right.
PHASOR_HD inline LineSpan line_span(const KeyTiles& t, const Clips& c, int side) {
  const int first = side == kOfQueries ? t.offset() - c.left : -c.right - t.offset();
  return {chunk_of(first), chunk_of(first + c.left + c.right) + 1};
}
/// The distance that a line is of.
PHASOR_HD inline int distance_of(const KeyTiles& t, const Clips& c, int side, int z) {
  const int r = side == kOfQueries ? t.offset() - z : z + t.offset();
  return r < -c.right ? -c.right : r > c.left ? c.left : r;
}

/// Tiles of queries that a block of keys is near: those whose near_blocks have it.
PHASOR_HD inline Span near_tiles(const KeyTiles& t, const Clips& c, int block) {
  const Span all = query_tiles(t, block);
  const int key = block * kBlockKeys;
  const int most = key + kBlockKeys - 2 + c.left - t.offset(), least = key - c.right - t.offset() - t.tile_queries + 2;  // of a tile's row
  int first = least <= 0 ? 0 : (least + t.tile_queries - 1) / t.tile_queries;
  int end = most < 0 ? 0 : most / t.tile_queries + 1;
  if (first < all.first) first = all.first;
  if (end > all.end) end = all.end;
  return first < end ? Span{first, end} : Span{0, 0};
}
/// The same of 16 features: chunks of the others.
PHASOR_HD inline Span near_chunks(const KeyTiles& t, const Clips& c, int side, int chunk) {
  const int tile_chunks = t.tile_queries / kChunkLines, block_chunks = kBlockKeys / kChunkLines;
  const Span of = side == kOfQueries ? near_blocks(t, c, chunk / tile_chunks) : near_tiles(t, c, chunk / block_chunks);
  const int chunks = side == kOfQueries ? block_chunks : tile_chunks;
  return {of.first * chunks, of.end * chunks};
}

}  // namespace phasor::cuda::hopper
