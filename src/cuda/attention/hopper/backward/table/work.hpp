// SPDX-License-Identifier: Apache-2.0
// What the kernels of a backward know of a table of clipped rows. Host and device.
#pragma once

#include "cuda/attention/hopper/backward/tiles.hpp"
#include "cuda/attention/hopper/tensor_rows.hpp"

struct uint4;

namespace phasor::cuda::hopper {

/// Of a table, as tiles read it.
struct TableTiles {
  Clips clips;
  int near_blocks;           // room for so many of each tile in `strips`
  std::int64_t lse_of_side;  // numbers between lse, the same less the left end's products with the table, and less the right end's
  /// (B, H, tiles, near_blocks, 2, queries / 16, 128): what a thread has of a tile that is not far. Products with the table, float16; then
  /// the gradients of the scores in their place.
  uint4* strips;
  int blocks;    // of a head: parts_of
  float* parts;  // (B, H, blocks, table_lines, channels): the table's gradient, to be added up
};

/// Of the kernels before and after.
struct TableWork {
  KeyTiles tiles;
  TableTiles of;
  InputRows q;
  InputRows table;
  OutputRows dq;
  const float* dq_sums;
  float* lse;
  float scale;
  float scale_log2;
  float table_scale;
  float* gradient;  // (rows, heads or 1, channels); null: not wanted
  int rows;         // of the gradient, with those that nobody sees

  PHASOR_HD std::int64_t row_number(int batch, int head, int row) const {
    return (std::int64_t{batch} * tiles.heads + head) * tiles.rows() + row;
  }
  PHASOR_HD int tile_number(int batch, int head, int tile) const { return (batch * tiles.heads + head) * tiles.tiles() + tile; }
};

/// Of a block: every so many tiles of a head's queries.
struct TableBlock {
  int part;
  int parts;
  int head;
  int batch;
};

}  // namespace phasor::cuda::hopper
