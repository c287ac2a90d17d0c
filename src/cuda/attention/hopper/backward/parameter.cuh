// SPDX-License-Identifier: Apache-2.0
// What the backward kernels get.
#pragma once

#include <cuda.h>

#include "cuda/attention/hopper/backward/table/work.hpp"
#include "cuda/attention/hopper/backward/tiles.hpp"
#include "phasor/tensor_view.hpp"

namespace phasor::cuda::hopper {

/// Sums of the gradients of scores by distance, of blocks that share slots and of one tile after the other. Null: not wanted.
struct DistanceSums {
  float* slots;  // (B, H, slots, length of the windows), zeros at the start
  float* far;    // (B, H, blocks, 2): on the left, on the right; zeros at the start, since not all blocks see queries
  int* done;     // (B, Hk, blocks): 1 once a block has added all of its sums; zeros at the start
};

/// Of a table that meets keys, alone or beside one that meets queries. Rows of keys are those of whole blocks.
struct KeySide {
  const float* ends;  // (B, H, 2, keys): products with the row for all beyond on the left, and on the right, in powers of 2
  float* sums;        // the same: sums of the gradients of scores over queries of far tiles
  float* dk;          // (B, Hk, blocks, 2, channels / 8, 128, 4): a warpgroup's registers, without the table's share
};

struct BackwardParameter {
  CUtensorMap q;
  CUtensorMap k;
  CUtensorMap v;
  CUtensorMap g;      // the gradient of the outputs
  bool whole;         // q and k are mapped by whole panels of 64 channels: a tile is one copy
  bool whole_values;  // v and g
  KeyTiles tiles;
  Windows windows;
  float scale;
  float scale_log2;    // times log2 e
  const float* lse;    // (B, H, rows) in powers of 2; infinite where nothing is seen and beyond the last query
  const float* delta;  // (B, H, rows): the gradient of the row's log-sum-exp, negated
  float* dq;           // (B, H, tiles): a warpgroup's registers, (2, 8, 128, 4) of every tile, and what dq_numbers says
  int* turns;          // (B, H, tiles): how many blocks have added to dq's tile, zeros at the start; 1 from the first one on in any order
  bool deterministic;  // blocks add in order
  int* next;           // of the work that nobody has claimed, 0 at the start
  OutputRows dk;
  OutputRows dv;
  DistanceSums sums;
  TableTiles table;
  KeySide keys;

  __device__ __forceinline__ std::int64_t row_number(int batch, int head, int row) const {
    return (std::int64_t{batch} * tiles.heads + head) * tiles.rows() + row;
  }
  /// `takes` keeps it within 30 bits.
  __device__ __forceinline__ int tile_number(int batch, int head, int tile) const {
    return (batch * tiles.heads + head) * tiles.tiles() + tile;
  }
};

struct BackwardKernel {
  const void* kernel;
  unsigned threads;
  int shared_bytes;
};
struct BackwardWish {
  DType dtype;
  bool diagonal;
  bool sums;  // by distance
};
/// Of kBackwardWidths[0] and [1].
BackwardKernel backward_kernel_64(const BackwardWish& wish);
BackwardKernel backward_kernel_128(const BackwardWish& wish);
/// With a table.
BackwardKernel backward_table_kernel_64(DType dtype);
BackwardKernel backward_table_kernel_128(DType dtype);
/// With one that meets keys.
BackwardKernel backward_keys_kernel_64(DType dtype);
BackwardKernel backward_keys_kernel_128(DType dtype);

}  // namespace phasor::cuda::hopper
