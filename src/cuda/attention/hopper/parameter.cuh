// SPDX-License-Identifier: Apache-2.0
// What the forward kernels get: tensors as the copy engine sees them, how the call is cut, a bias by distance.
#pragma once

#include <cuda.h>

#include "cuda/attention/hopper/strip/strips.hpp"
#include "cuda/attention/hopper/tiles.hpp"
#include "phasor/tensor_view.hpp"

namespace phasor::cuda::hopper {

struct ForwardParameter {
  CUtensorMap q;
  CUtensorMap k;
  CUtensorMap v;
  CUtensorMap table;
  CUtensorMap features;
  CUtensorMap beyond_k;  // k and v in tiles of kBeyondKeys
  CUtensorMap beyond_v;
  CUtensorMap value_table;
  bool whole;         // q and k are mapped by whole panels of 64 channels: a tile is one copy
  bool whole_values;  // v
  Tiles tiles;
  Windows windows;
  Clips clips;
  ShiftSums sums;
  bool has_key_table;               // else there is one of values alone
  const unsigned char* value_rows;  // of that: its first row; null: there is none
  std::int64_t value_rows_row;      // bytes between rows
  std::int64_t value_rows_head;     // and heads, 0: shared
  Strips strips;
  int rows_left;           // of windows: keys further before a query have no row, and nothing is added; kFar: all have, or get a shift
  const int* first_tiles;  // (batch, heads, blocks of queries): tiles before it do not matter; null: all do
  float scale;
  float scale_log2;  // times log2 e
  float cap;         // raw: divided by the scale
  float* lse;        // null: not wanted
  std::int64_t lse_strides[3];
  unsigned char* out;
  std::int64_t out_strides[3];  // batch row, token, head; in bytes
  int value_width;
  int* next;  // of the work that nobody has claimed yet, counted from the number of blocks; 0 at the start
};

/// A kernel and what its launch needs.
struct ForwardKernel {
  const void* kernel;
  unsigned threads;
  int shared_bytes;
};
struct KernelWish {
  DType dtype;
  bool diagonal;
  bool capped;
};
/// Of kWidths[0] to kWidths[3].
ForwardKernel kernel_64(const KernelWish& wish);
ForwardKernel kernel_128(const KernelWish& wish);
ForwardKernel kernel_192(const KernelWish& wish);
ForwardKernel kernel_256(const KernelWish& wish);
/// With a table: of kWidths[0] and kWidths[kTableWidths].
ForwardKernel table_kernel_64(DType dtype);
ForwardKernel table_kernel_128(DType dtype);
/// With a table of values, too, or alone: of the same.
ForwardKernel valued_kernel_64(DType dtype);
ForwardKernel valued_kernel_128(DType dtype);
/// With windows of a table: of kWidths[kWindowWidths] and the next; and those that features meet.
ForwardKernel window_kernel_64(DType dtype);
ForwardKernel window_kernel_128(DType dtype);
ForwardKernel featured_kernel_64(DType dtype);
ForwardKernel featured_kernel_128(DType dtype);
/// With tables that queries and keys meet by distance: of kWidths[0] and kWidths[1].
ForwardKernel strip_kernel_64(DType dtype);
ForwardKernel strip_kernel_128(DType dtype);

}  // namespace phasor::cuda::hopper
