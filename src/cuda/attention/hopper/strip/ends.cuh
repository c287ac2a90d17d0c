// SPDX-License-Identifier: Apache-2.0
// Products of queries, and of keys, with the rows of a table beyond its ends: what far tiles add instead of a strip.
#pragma once

#include "cuda/attention/hopper/instructions.cuh"
#include "cuda/attention/hopper/tensor_rows.hpp"

namespace phasor::cuda::hopper {

/// Products of all rows of a tensor with the rows of a table beyond its ends.
struct EndWork {
  InputRows rows;
  InputRows table;
  int heads_of_row;  // that share a head of rows
  int heads;
  int tokens;
  int last;    // row of the table
  int length;  // of a line; behind the tokens are zeros
  int lanes;   // threads of a row, a power of two
  float factor;
  float* to;  // (B, H, 2, length)
};
/// Eight numbers of 16 bits.
template <class Element>
__device__ __forceinline__ void widen_eight(float (&x)[8], const unsigned char* from, bool is_there) {
  const uint4 bits = is_there ? *reinterpret_cast<const uint4*>(from) : uint4{0, 0, 0, 0};
  const std::uint32_t words[4] = {bits.x, bits.y, bits.z, bits.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float2 pair = unpack<Element>(words[i]);
    x[2 * i] = pair.x, x[2 * i + 1] = pair.y;
  }
}
constexpr int kEndThreads = 256, kEndRows = 8;
/// Of so many rows from `first` on for every `lanes` threads.
template <class Element>
__device__ __forceinline__ void multiply_ends(const EndWork& w, int part, int head, int batch) {
  const int lane = threadIdx.x % w.lanes, together = kEndThreads / w.lanes;
  const bool has_channels = 8 * lane < w.rows.width;
  float ends[2][8], x[8];
  widen_eight<Element>(ends[0], w.table.row(0, 0, head) + 16 * lane, has_channels);
  widen_eight<Element>(ends[1], w.table.row(0, w.last, head) + 16 * lane, has_channels);
  float* const to = w.to + (std::int64_t{batch} * w.heads + head) * 2 * w.length;
#pragma unroll
  for (int n = 0; n < kEndRows; ++n) {
    const int token = (part * kEndRows + n) * together + threadIdx.x / w.lanes;
    const bool is_there = token < w.tokens && has_channels;
    widen_eight<Element>(x, w.rows.row(batch, token, head / w.heads_of_row) + 16 * lane, is_there);
    float sum[2] = {0, 0};
#pragma unroll
    for (int i = 0; i < 8; ++i) sum[0] += x[i] * ends[0][i], sum[1] += x[i] * ends[1][i];
    for (int i = 1; i < w.lanes; i *= 2) sum[0] += __shfl_xor_sync(~0u, sum[0], i), sum[1] += __shfl_xor_sync(~0u, sum[1], i);
    if (lane == 0 && token < w.length) to[token] = sum[0] * w.factor, to[token + w.length] = sum[1] * w.factor;
  }
}

}  // namespace phasor::cuda::hopper
