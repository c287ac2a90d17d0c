// SPDX-License-Identifier: Apache-2.0
// What the kernels around a backward with tables by distance know: rows by any rule, on the side of queries, of keys, or of both. Host and
// device.
#pragma once

#include "cuda/attention/hopper/backward/band/lines.hpp"
#include "cuda/attention/hopper/backward/table/work.hpp"
#include "cuda/attention/place.hpp"

namespace phasor::cuda::hopper {

/// Which features a warp has: 32 of a head.
struct BandPlace {
  int batch;
  int head;   // of the queries
  int chunk;  // the first of two
};

/// Of one table's launches.
struct BandWork {
  KeyTiles tiles;
  Clips near;  // of both tables: which blocks of keys are near a tile of queries
  int near_blocks;
  uint4* strips;    // (B, H, tiles, near_blocks, ...) as in TableTiles
  bool adds;        // the other side's products are there
  Clips clips;      // of this one
  LineSpan span;    // of nothing: there is no table
  InputRows rows;   // of the table
  job::RowMap map;  // which of them a distance reads
  int row_count;
  InputRows features;
  // The table by lines, (heads or 1, chunks, 16, channels / 8), with two chunks behind: the first line, twice, and the last one, twice; all
  // else in them is zeros.
  uint4* lines;
  const float* of_lines;  // (H, chunks + 2, 16): added to products with lines; null: nothing
  int* line_rows;         // which row each of LineSpan::lines is
  float factor;           // the table's scale over that of q . k
  float scale;
  float scale_log2;
  float table_scale;
  float* ends;  // of queries: the log-sum-exp (TableTiles::lse_of_side); of keys: products with the end's row, of KeySide
  std::int64_t ends_of_side;
  const float* sums;      // of queries: BackwardParameter::dq, of keys: KeySide::dk
  const float* far;       // of keys: KeySide::sums
  float* beyond;          // (B, H, 2, features): sums of gradients of scores beyond an end of the lines
  OutputRows to;          // what features get
  int parts;              // of a head's features, for the gradient of the table
  float* parts_at;        // (B, H, parts, lines, channels)
  float* gradient;        // (rows, heads or 1, channels)
  int gradient_pitch;     // between its rows
  bool adds_to_gradient;  // earlier parts of the call are in it
  float* shift_sums[2];   // (B, H, shift_parts, width): sums over queries of what keys give these, and rows; null: not wanted

  PHASOR_HD int feature_count(int side) const { return side == kOfQueries ? tiles.queries : tiles.keys; }
  PHASOR_HD bool has_shift_sums() const { return shift_sums[0] != nullptr || shift_sums[1] != nullptr; }
  PHASOR_HD int head_of_table(int head) const { return clips.by_head ? head : 0; }
  /// Of a query: where its tile is.
  PHASOR_HD int tile_number(int batch, int head, int tile) const { return (batch * tiles.heads + head) * tiles.tiles() + tile; }
  PHASOR_HD std::int64_t row_number(int batch, int head, int row) const {
    return (std::int64_t{batch} * tiles.heads + head) * tiles.rows() + row;
  }
  /// Of `ends` and `far` on the side of keys; `far_side`: 0 for r >= left, 1 for -r >= right.
  PHASOR_HD std::int64_t key_number(int batch, int head, int far_side, int key) const {
    return ((std::int64_t{batch} * tiles.heads + head) * 2 + far_side) * (tiles.blocks() * kBlockKeys) + key;
  }
  /// Of `beyond`; features are those of whole tiles or blocks.
  PHASOR_HD std::int64_t feature_number(int side, const BandPlace& at, int feature, int end) const {
    const int all = side == kOfQueries ? tiles.rows() : tiles.blocks() * kBlockKeys;
    return ((std::int64_t{at.batch} * tiles.heads + at.head) * 2 + end) * all + feature;
  }
};
/// Whether something follows the backward by features: beside a table of keys all of dk goes this way, and dq always; the table's gradient
/// needs what lies beyond its ends, and what is added to queries what these get.
inline bool finishes_features(const BandWork& w, int side) {
  const bool wanted = w.to.data != nullptr && (side == kOfQueries || w.span.chunks() > 0);
  return wanted || w.gradient != nullptr || w.has_shift_sums();
}
/// Which far side an end of the lines is: 0 for r >= left, 1 for -r >= right.
PHASOR_HD inline int far_side_of(int side, int end) { return side == kOfQueries ? end : 1 - end; }

}  // namespace phasor::cuda::hopper
