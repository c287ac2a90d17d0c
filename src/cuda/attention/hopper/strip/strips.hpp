// SPDX-License-Identifier: Apache-2.0
// Tables by distance that queries and keys meet (DeBERTa), as the forward reads them: which tiles of keys are near, and where their strips
// lie. Host and device.
#pragma once

#include "cuda/attention/hopper/tiles.hpp"

struct uint4;

namespace phasor::cuda::hopper {

/// Queries of a strip: those of a warpgroup.
constexpr int kStripQueries = 64;

/// What tables add to scores, made before the kernel. Where a tile of keys has one distance that is not beyond the ends for some of 64
/// queries it is near, and its scores are there one by one: a strip. Elsewhere a number of the query and one of the key are their sum.
struct Strips {
  Clips clips;    // the ends alone: both tables have one row beyond each of them
  int near;       // room for so many tiles of 64 queries
  int first;      // strips are those of blocks of queries from this number on,
  int end;        // to this one
  uint4* values;  // (blocks of queries, 64 queries each, near, keys / 16, 128 threads), in the order of their registers; float16
  const float*
      rows;  // (B, H, 2, rows_length): products of queries with the row beyond the left end, and the right; null: no table meets them
  const float* columns;  // (B, H, 2, columns_length): the same of keys
  int rows_length;
  int columns_length;
};

/// The first tile of keys that is not far to the left of 64 queries from `row` on.
PHASOR_HD inline int first_near_tile(const Tiles& t, const Clips& c, int row) {
  const int from = row + t.offset() - c.left + 1;
  return from <= 0 ? 0 : from / t.tile_keys;
}
/// Behind the last one that is not far to the right.
PHASOR_HD inline int end_near_tile(const Tiles& t, const Clips& c, int row) {
  const int keys = row + kStripQueries - 1 + t.offset() + c.right;
  const int end = keys < t.keys ? keys : t.keys;
  return end <= 0 ? 0 : (end + t.tile_keys - 1) / t.tile_keys;
}
PHASOR_HD inline int most_near_tiles(const Tiles& t, const Clips& c) {
  const int all = (t.keys + t.tile_keys - 1) / t.tile_keys;
  const int near = (kStripQueries - 2 + c.left + c.right + t.tile_keys - 1) / t.tile_keys + 1;
  return near < all ? near : all;
}
/// The strip of a tile that is near, in numbers of uint4; `number` of a block of queries, `group` of its 64.
PHASOR_HD inline std::int64_t strip_place(const Tiles& t, const Strips& s, int number, int group, int row, int tile) {
  const std::int64_t first = std::int64_t{number - s.first} * (t.block_queries / kStripQueries) + group;
  return (first * s.near + tile - first_near_tile(t, s.clips, row)) * (t.tile_keys * (kStripQueries / 8));
}

}  // namespace phasor::cuda::hopper
