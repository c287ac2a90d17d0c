// SPDX-License-Identifier: Apache-2.0
// The softmax of a thread's two rows over passing tiles of scores, in their registers (terms.cuh says which are where).
#pragma once

#include <cmath>

#include "cuda/attention/hopper/instructions.cuh"
#include "cuda/attention/hopper/tiles.hpp"

namespace phasor::cuda::hopper {

/// So far: the greatest score of each row, raw, and the sum of this thread's weights.
struct Rows {
  float greatest[2] = {-INFINITY, -INFINITY};
  float sum[2] = {0, 0};
};

/// What every score of a thread's rows still lacks: the same for both, or one for each.
struct RowShifts {
  float of[2] = {0, 0};
};
__device__ __forceinline__ float shift_of(float shift, int) { return shift; }
__device__ __forceinline__ float shift_of(const RowShifts& shift, int r) { return shift.of[r]; }

/// Scores become weights; `shrink` is by how much what the rows summed before shrinks.
template <int kKeys, class Shift>
__device__ __forceinline__ void update_softmax(float (&s)[kKeys / 2], Rows& rows, float (&shrink)[2], const Shift& shifts,
                                               float scale_log2) {
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const float shift = shift_of(shifts, r);
    float a = s[2 * r], b = s[2 * r + 1];
#pragma unroll
    for (int c = 1; c < kKeys / 8; ++c) a = fmaxf(a, s[4 * c + 2 * r]), b = fmaxf(b, s[4 * c + 2 * r + 1]);
    a = fmaxf(a, b);
    a = fmaxf(a, __shfl_xor_sync(~0u, a, 1));
    a = fmaxf(a, __shfl_xor_sync(~0u, a, 2)) + shift;
    const float greatest = fmaxf(rows.greatest[r], a);
    const float finite = greatest == -INFINITY ? 0 : greatest;  // of a row that has seen nothing: exp2(-inf - 0) is 0
    shrink[r] = exp2_approximate((rows.greatest[r] - finite) * scale_log2);
    rows.greatest[r] = greatest;
    const float from = (finite - shift) * scale_log2;
    float even = 0, odd = 0;
#pragma unroll
    for (int c = 0; c < kKeys / 8; ++c) {
      even += s[4 * c + 2 * r] = exp2_approximate(fmaf(s[4 * c + 2 * r], scale_log2, -from));
      odd += s[4 * c + 2 * r + 1] = exp2_approximate(fmaf(s[4 * c + 2 * r + 1], scale_log2, -from));
    }
    rows.sum[r] = rows.sum[r] * shrink[r] + even + odd;
  }
}

/// Keys that a row does not see get -infinity; `row` and `key` are the numbers of the thread's first query and of its first column's key.
template <int kKeys>
__device__ __forceinline__ void mask_scores(float (&s)[kKeys / 2], const Tiles& t, int row, int key) {
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int position = row + 8 * r + t.offset();
    const int first = max(position - t.left, 0), last = min(position + t.right, t.keys - 1);
    const unsigned seen = max(last - first + 1, 0);
#pragma unroll
    for (int c = 0; c < kKeys / 8; ++c) {
#pragma unroll
      for (int x = 0; x < 2; ++x) {
        if (unsigned(key - first + 8 * c + x) >= seen) s[4 * c + 2 * r + x] = -INFINITY;
      }
    }
  }
}

/// s <- cap tanh(s / cap), raw. By the exponential: the instruction for tanh is good for 11 bits.
template <int kKeys>
__device__ __forceinline__ void cap_scores(float (&s)[kKeys / 2], float cap, float shift) {
  const float factor = 2 * float(M_LOG2E) / cap;
#pragma unroll
  for (int i = 0; i < kKeys / 2; ++i) s[i] = cap - __fdividef(2 * cap, 1 + exp2_approximate((s[i] + shift) * factor));
}

template <int kCount>
__device__ __forceinline__ void rescale(float (&o)[kCount], const float (&shrink)[2]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) o[i] *= shrink[i >> 1 & 1];
}

/// Weights as the left operand of the next product.
template <class Element, int kKeys>
__device__ __forceinline__ void round_weights(std::uint32_t (&p)[kKeys / 4], const float (&s)[kKeys / 2]) {
#pragma unroll
  for (int i = 0; i < kKeys / 4; ++i) p[i] = pack<Element>(s[2 * i], s[2 * i + 1]);
}

/// x[i] of thread t of a quad becomes x[t] of thread i.
__device__ __forceinline__ void transpose_in_quad(std::uint32_t (&x)[4], int lane) {
  const bool odd = lane & 1, high = lane & 2;
#pragma unroll
  for (int i = 0; i < 4; i += 2) {
    const std::uint32_t other = __shfl_xor_sync(~0u, odd ? x[i] : x[i + 1], 1);
    (odd ? x[i] : x[i + 1]) = other;
  }
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const std::uint32_t other = __shfl_xor_sync(~0u, high ? x[i] : x[i + 2], 2);
    (high ? x[i] : x[i + 2]) = other;
  }
}

}  // namespace phasor::cuda::hopper
