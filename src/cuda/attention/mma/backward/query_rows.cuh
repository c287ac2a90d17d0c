// SPDX-License-Identifier: Apache-2.0
// Sums of 16 queries of a warp and some of their channels, in the registers of a product, on their way to rows that are the block's own.
#pragma once

#include "cuda/attention/mma/backward/room.cuh"

namespace phasor::cuda::attention::mma::backward {

template <int kColumns>
__device__ __forceinline__ void add_scaled(float (&d)[kColumns][4], const float (&x)[kColumns][4], float scale) {
#pragma unroll
  for (int n = 0; n < kColumns; ++n) {
#pragma unroll
    for (int e = 0; e < 4; ++e) d[n][e] = fmaf(scale, x[n][e], d[n][e]);
  }
}

struct QueryRows {
  float* at[2];  // of rows g and g + 8; null: there is none, or it is not wanted
  int channels;  // that are there from the lane's first on
};
/// Of the queries of a tile, `width` channels each, those of the warp from channel `first` on.
template <class K>
__device__ inline QueryRows query_rows_of(const Step<K>& at, const SumRows<float>& rows, int width, int first) {
  const int channel = first + 2 * (lane_here() & 3);
  QueryRows own = {{nullptr, nullptr}, width - channel};
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int query = warp_here() / K::kWarpsOfTile * 16 + lane_here() / 4 + 8 * h;
    if (rows.data == nullptr || query >= at.tile.queries.count) continue;
    own.at[h] = rows.data + int64_t{query} * rows.row + channel;
  }
  return own;
}
template <int kColumns>
__device__ __forceinline__ void add_query_rows(const QueryRows& rows, const float (&d)[kColumns][4]) {
#pragma unroll
  for (int n = 0; n < kColumns; ++n) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      if (rows.at[h] != nullptr && 8 * n < rows.channels) add_two(rows.at[h] + 8 * n, d[n][2 * h], d[n][2 * h + 1]);
    }
  }
}

}  // namespace phasor::cuda::attention::mma::backward
