// SPDX-License-Identifier: Apache-2.0
// The softmax of a warp, and the warps of a block made one.
#pragma once

#include "cuda/attention/decode/instructions.cuh"
#include "cuda/attention/decode/products.cuh"

namespace phasor::cuda::decode {

/// A warp's rows so far: queries 2t and 2t + 1 of each column in a thread. Weights are powers of two of scores less `from`, which is near
/// the greatest so far, so that few tiles rescale what was before.
template <class S>
struct Sums {
  float out[S::kDepth][S::kColumns][4];
  float from[S::kColumns][2];
  float limit[S::kColumns][2];  // of a score less `from`; above it there is a new `from`
  float sum[S::kColumns][2];    // of the thread's own keys
};
/// Weights stay below 2^8 then, which f16 has room for.
constexpr float kSlack = 8;

template <class S>
__device__ inline Sums<S> no_sums() {
  Sums<S> sums = {};
#pragma unroll
  for (int column = 0; column < S::kColumns; ++column) sums.limit[column][0] = sums.limit[column][1] = -INFINITY;
  return sums;
}

/// A thread's greatest score of a query.
template <class S>
__device__ inline float most_of(const float (&scores)[S::kGroups][S::kColumns][4], int column, int query) {
  float most = -INFINITY;
#pragma unroll
  for (int group = 0; group < S::kGroups; ++group)
    most = fmaxf(most, fmaxf(scores[group][column][query], scores[group][column][query + 2]));
  return most;
}
/// Rows whose greatest score is above the limit begin to count from there.
template <class S>
__device__ __forceinline__ void raise(Sums<S>& sums, float (&scores)[S::kGroups][S::kColumns][4]) {
#pragma unroll
  for (int column = 0; column < S::kColumns; ++column) {
#pragma unroll
    for (int query = 0; query < 2; ++query) {
      float most = most_of<S>(scores, column, query);
#pragma unroll
      for (int other = 4; other < 32; other *= 2) most = fmaxf(most, __shfl_xor_sync(0xffffffff, most, other));
      float& limit = sums.limit[column][query];
      const bool is_above = most > limit;
      if (!is_above) most = 0;
      const float factor = limit == -INFINITY ? 1 : power_of_two(-most);  // before the first there is nothing
      if (is_above) limit = kSlack;
      sums.from[column][query] += most;
      sums.sum[column][query] *= factor;
#pragma unroll
      for (int group = 0; group < S::kGroups; ++group) scores[group][column][query] -= most, scores[group][column][query + 2] -= most;
#pragma unroll
      for (int tile = 0; tile < S::kDepth; ++tile) sums.out[tile][column][query] *= factor, sums.out[tile][column][query + 2] *= factor;
    }
  }
}

/// Scores (less `from`) become weights: as a product wants them, keys 2t, 2t + 1, 2t + 8 and 2t + 9 of query g.
template <class S>
__device__ __forceinline__ void add_scores(Sums<S>& sums, float (&scores)[S::kGroups][S::kColumns][4],
                                           std::uint32_t (&weights)[S::kGroups][S::kColumns][2]) {
  bool rises = false;
#pragma unroll
  for (int column = 0; column < S::kColumns; ++column) {
#pragma unroll
    for (int query = 0; query < 2; ++query) rises = rises || most_of<S>(scores, column, query) > sums.limit[column][query];
  }
  if (__any_sync(0xffffffff, rises)) raise<S>(sums, scores);
#pragma unroll
  for (int group = 0; group < S::kGroups; ++group) {
#pragma unroll
    for (int column = 0; column < S::kColumns; ++column) {
      float(&x)[4] = scores[group][column];
#pragma unroll
      for (int c = 0; c < 4; ++c) x[c] = power_of_two(x[c]);
      sums.sum[column][0] += x[0] + x[2];
      sums.sum[column][1] += x[1] + x[3];
      weights[group][column][0] = transposed(packed<S::kBrain>(x[0], x[1]));
      weights[group][column][1] = transposed(packed<S::kBrain>(x[2], x[3]));
    }
  }
}

/// What a part of a block's warps found of a row.
struct __align__(8) PartSum {
  float most;
  float sum;
};
/// A warp's sums laid where stages were.
template <class S>
__device__ __forceinline__ void lay_sums(const Sums<S>& sums, int team, int part, float* room, PartSum* numbers) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int column = 0; column < S::kColumns; ++column) {
#pragma unroll
    for (int query = 0; query < 2; ++query) {
      const int row = team * S::kWarpRows + column * 8 + lane % 4 * 2 + query;
      float sum = sums.sum[column][query];
#pragma unroll
      for (int other = 4; other < 32; other *= 2) sum += __shfl_xor_sync(0xffffffff, sum, other);
      const float most = sums.limit[column][query] == -INFINITY ? -INFINITY : sums.from[column][query];
      if (lane < 4) numbers[row * S::kParts + part] = {most, sum};
      float* const to = room + (part * S::kRows + row) * S::kOutRow;
#pragma unroll
      for (int tile = 0; tile < S::kDepth; ++tile) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          to[out_place<S>(value_channel<S>(tile, lane / 4 + half * 8))] = sums.out[tile][column][half * 2 + query];
        }
      }
    }
  }
}
/// The sums of all warps made one, in order, and written: four channels of a row at a time.
template <class S>
__device__ __forceinline__ void write_partial(const DecodeWork& work, const Block& block, const float* room, const PartSum* numbers) {
  const float scale = scale_of(work.v, block.key_head);
  const int rows = rows_of(work) - block.first_row < S::kRows ? rows_of(work) - block.first_row : S::kRows;
  const int64_t first = partial_row(work, block.batch, block.key_head, block.split, block.first_row);
  for (int n = static_cast<int>(threadIdx.x); n < rows * (S::kWidth / 4); n += kThreads) {
    const int row = n / (S::kWidth / 4);
    const int channel = n % (S::kWidth / 4) * 4;
    float most = -INFINITY;
#pragma unroll
    for (int p = 0; p < S::kParts; ++p) most = fmaxf(most, numbers[row * S::kParts + p].most);
    const float from = most == -INFINITY ? 0 : most;
    float out[4] = {};
    float sum = 0;
#pragma unroll
    for (int p = 0; p < S::kParts; ++p) {
      const PartSum of = numbers[row * S::kParts + p];
      const float factor = power_of_two(of.most - from);
      const auto* const at = reinterpret_cast<const float2*>(room + (p * S::kRows + row) * S::kOutRow + out_place<S>(channel));
      const float2 low = at[0];
      const float2 high = at[1];
      out[0] += factor * low.x, out[1] += factor * low.y, out[2] += factor * high.x, out[3] += factor * high.y;
      sum += factor * of.sum;
    }
    const int64_t to = first + row;
    *reinterpret_cast<float4*>(work.partial_out + to * S::kWidth + channel) = {out[0] * scale, out[1] * scale, out[2] * scale,
                                                                               out[3] * scale};
    if (channel == 0) work.partial_sum[to * 2] = most, work.partial_sum[to * 2 + 1] = sum;
  }
}

}  // namespace phasor::cuda::decode
