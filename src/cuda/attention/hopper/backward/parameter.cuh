// SPDX-License-Identifier: Apache-2.0
// What the backward kernels get.
#pragma once

#include <cuda.h>

#include "cuda/attention/hopper/backward/tiles.hpp"
#include "phasor/tensor_view.hpp"

namespace phasor::cuda::hopper {

/// Rows of a tensor of 16-bit numbers, written 16 bytes at a time.
struct OutputRows {
  unsigned char* data;      // null: not wanted
  std::int64_t strides[3];  // batch row, token, head; in bytes
  int width;

  __device__ __forceinline__ unsigned char* row(int batch, int token, int head) const {
    return data + batch * strides[0] + token * strides[1] + head * strides[2];
  }
};

inline OutputRows output_rows(const TensorView& v) {
  return {static_cast<unsigned char*>(v.data), {v.strides[0] * 2, v.strides[1] * 2, v.strides[2] * 2}, static_cast<int>(v.shape[3])};
}
/// The same, read.
struct InputRows {
  const unsigned char* data;
  std::int64_t strides[3];
  int width;

  __device__ __forceinline__ const unsigned char* row(int batch, int token, int head) const {
    return data + batch * strides[0] + token * strides[1] + head * strides[2];
  }
};
inline InputRows input_rows(const ConstTensorView& v) {
  return {static_cast<const unsigned char*>(v.data), {v.strides[0] * 2, v.strides[1] * 2, v.strides[2] * 2}, static_cast<int>(v.shape[3])};
}

/// Sums of the gradients of scores by distance, of blocks that share slots and of one tile after the other. Null: not wanted.
struct DistanceSums {
  float* slots;  // (B, H, slots, length of the windows), zeros at the start
  float* far;    // (B, H, blocks, 2): on the left, on the right; zeros at the start, since not all blocks see queries
  int* done;     // (B, Hk, blocks): 1 once a block has added all of its sums; zeros at the start
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
  float* dq;           // (B, H, tiles, 2, 8, 128, 4): a warpgroup's registers, for every tile
  int* turns;          // (B, H, tiles): how many blocks have added to dq's tile, zeros at the start; 1 from the first one on in any order
  bool deterministic;  // blocks add in order
  int* next;           // of the work that nobody has claimed, 0 at the start
  OutputRows dk;
  OutputRows dv;
  DistanceSums sums;
  Clips clips;               // of a table
  int near_blocks;           // room for so many of each tile in `strips`
  std::int64_t lse_of_side;  // numbers between lse, the same less the left end's products with the table, and less the right end's
  /// (B, H, tiles, near_blocks, 2, queries / 16, 128): what a thread has of a tile that is not far. Products with the table, float16; then
  /// the gradients of the scores in their place.
  uint4* strips;
  float* table_parts;  // (B, H, parts_of, table_lines, channels): the table's gradient, to be added up

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

}  // namespace phasor::cuda::hopper
