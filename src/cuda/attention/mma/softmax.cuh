// SPDX-License-Identifier: Apache-2.0
// The softmax of a lane's rows over passing tiles of scores, in the registers of products (instructions.cuh says which are where).
#pragma once

#include <cmath>

#include "cuda/attention/base2.hpp"
#include "cuda/attention/forward.hpp"
#include "cuda/attention/mma/instructions.cuh"

namespace phasor::cuda::attention::mma {

/// So far: the greatest score of each row, and the sum of this lane's weights. Row 2 m + h of a lane is 16 m + 8 h + g.
template <int kRowTiles>
struct Rows {
  float greatest[2 * kRowTiles];
  float sum[2 * kRowTiles];
  float shrink[2 * kRowTiles];  // what older sums were multiplied by at the last tile
  __device__ Rows() {
#pragma unroll
    for (int r = 0; r < 2 * kRowTiles; ++r) greatest[r] = -INFINITY, sum[r] = 0;
  }
};

/// Scores become weights, and older sums shrink. `factor`: what scores still are to be multiplied by, and log2(e).
template <int kRowTiles, int kColumns, int kWide>
__device__ __forceinline__ void update_softmax(float (&s)[kRowTiles][kColumns][4], float (&o)[kRowTiles][kWide][4], Rows<kRowTiles>& rows,
                                               float factor) {
#pragma unroll
  for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int r = 2 * m + h;
      float high = fmaxf(s[m][0][2 * h], s[m][0][2 * h + 1]);
#pragma unroll
      for (int n = 1; n < kColumns; ++n) high = fmaxf(high, fmaxf(s[m][n][2 * h], s[m][n][2 * h + 1]));
      high = fmaxf(high, __shfl_xor_sync(~0U, high, 1));
      high = fmaxf(high, __shfl_xor_sync(~0U, high, 2));
      high = fmaxf(rows.greatest[r], high);
      const float from = high == -INFINITY ? 0 : high * factor;  // of a row that has seen nothing: exp2(-inf - 0) is 0
      const float shrink = exp2_approximate(fmaf(rows.greatest[r], factor, -from));
      rows.greatest[r] = high;
      rows.shrink[r] = shrink;
      float sum = 0;
#pragma unroll
      for (int n = 0; n < kColumns; ++n) {
#pragma unroll
        for (int x = 2 * h; x < 2 * h + 2; ++x) sum += s[m][n][x] = exp2_approximate(fmaf(s[m][n][x], factor, -from));
      }
      rows.sum[r] = fmaf(rows.sum[r], shrink, sum);
#pragma unroll
      for (int n = 0; n < kWide; ++n) o[m][n][2 * h] *= shrink, o[m][n][2 * h + 1] *= shrink;
    }
  }
}

/// The sums of whole rows, of which four lanes have parts.
template <int kRowTiles>
__device__ __forceinline__ void add_up_lanes(Rows<kRowTiles>& rows) {
#pragma unroll
  for (int r = 0; r < 2 * kRowTiles; ++r) {
    rows.sum[r] += __shfl_xor_sync(~0U, rows.sum[r], 1);
    rows.sum[r] += __shfl_xor_sync(~0U, rows.sum[r], 2);
  }
}

}  // namespace phasor::cuda::attention::mma
