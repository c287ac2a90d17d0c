// SPDX-License-Identifier: Apache-2.0
// The softmax of a warp, and the warps of a block made one.
#pragma once

#include "cuda/attention/decode/instructions.cuh"
#include "cuda/attention/decode/shape.cuh"

namespace phasor::cuda::decode {

/// A warp's rows so far: two of each thread's quad.
template <class S>
struct Sums {
  float out[S::kValueTiles][4];
  float most[2];
  float sum[2];  // of the thread's own columns
};

template <class S>
__device__ inline void add_scores(Sums<S>& sums, float (&scores)[2][4], std::uint32_t (&weights)[4]) {
  float factors[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float most = fmaxf(fmaxf(scores[0][half * 2], scores[0][half * 2 + 1]), fmaxf(scores[1][half * 2], scores[1][half * 2 + 1]));
    most = fmaxf(most, __shfl_xor_sync(0xffffffff, most, 1));
    most = fmaxf(most, __shfl_xor_sync(0xffffffff, most, 2));
    most = fmaxf(most, sums.most[half]);
    const float from = most == -INFINITY ? 0 : most;
    const float factor = power_of_two(sums.most[half] - from);
    sums.most[half] = most;
    float sum = 0;
#pragma unroll
    for (int n = 0; n < 2; ++n) {
      for (int c = 0; c < 2; ++c) {
        float& score = scores[n][half * 2 + c];
        score = power_of_two(score - from);
        sum += score;
      }
    }
    sums.sum[half] = sums.sum[half] * factor + sum;
    factors[half] = factor;
  }
  if (__any_sync(0xffffffff, factors[0] != 1 || factors[1] != 1)) {  // times 1 it would be the same
#pragma unroll
    for (int tile = 0; tile < S::kValueTiles; ++tile) {
      for (int c = 0; c < 4; ++c) sums.out[tile][c] *= factors[c / 2];
    }
  }
  weights[0] = packed<S::kBrain>(scores[0][0], scores[0][1]);
  weights[1] = packed<S::kBrain>(scores[0][2], scores[0][3]);
  weights[2] = packed<S::kBrain>(scores[1][0], scores[1][1]);
  weights[3] = packed<S::kBrain>(scores[1][2], scores[1][3]);
}

/// A warp's sums laid where stages were, then all warps' of a row made one, in order, and written.
template <class S>
__device__ inline void write_partial(const DecodeWork& work, const Block& block, Sums<S>& sums, int row_tile, int part, float* room) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  float* const numbers = room + S::kKeyParts * S::kRows * S::kOutRow;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = part * S::kRows + row_tile * 16 + lane / 4 + half * 8;
    float sum = sums.sum[half];
    sum += __shfl_xor_sync(0xffffffff, sum, 1);
    sum += __shfl_xor_sync(0xffffffff, sum, 2);
    if (lane % 4 == 0) numbers[row * 2] = sums.most[half], numbers[row * 2 + 1] = sum;
#pragma unroll
    for (int tile = 0; tile < S::kValueTiles; ++tile) {
      for (int c = 0; c < 2; ++c) room[row * S::kOutRow + value_channel<S>(tile, lane % 4 * 2 + c)] = sums.out[tile][half * 2 + c];
    }
  }
  __syncthreads();
  const float scale = scale_of(work.v, block.key_head);
  const int rows = rows_of(work) - block.first_row < S::kRows ? rows_of(work) - block.first_row : S::kRows;
  for (int n = static_cast<int>(threadIdx.x); n < rows * S::kWidth; n += kThreads) {
    const int row = n / S::kWidth;
    const int channel = n % S::kWidth;
    float most = -INFINITY;
    for (int p = 0; p < S::kKeyParts; ++p) most = fmaxf(most, numbers[(p * S::kRows + row) * 2]);
    const float from = most == -INFINITY ? 0 : most;
    float out = 0;
    float sum = 0;
    for (int p = 0; p < S::kKeyParts; ++p) {
      const float factor = power_of_two(numbers[(p * S::kRows + row) * 2] - from);
      out += factor * room[(p * S::kRows + row) * S::kOutRow + channel];
      sum += factor * numbers[(p * S::kRows + row) * 2 + 1];
    }
    const int64_t to = partial_row(work, block.batch, block.key_head, block.split, block.first_row + row);
    work.partial_out[to * S::kWidth + channel] = out * scale;
    if (channel == 0) work.partial_sum[to * 2] = most, work.partial_sum[to * 2 + 1] = sum;
  }
}

}  // namespace phasor::cuda::decode
