// SPDX-License-Identifier: Apache-2.0
// What becomes of weights: they meet values, and sums leave as outputs.
#pragma once

#include "cuda/attention/hopper/forward/softmax.cuh"
#include "cuda/attention/hopper/parameter.cuh"

namespace phasor::cuda::hopper {

/// o += p v, asked for and not waited for; of the first 16 `kSteps` rows of v.
template <class B, int kSteps>
__device__ __forceinline__ void ask_rows(float (&o)[B::kOf.value_width / 2], std::uint32_t (&p)[4 * kSteps], std::uint64_t v) {
  pin(o), pin(p);
  products_begin();
#pragma unroll
  for (int x = 0; x < kSteps; ++x) {
    Product<typename B::Element, B::kOf.value_width>::registers(o, p + 4 * x, further(v, x * 16 * 128));
  }
  products_commit();
}
template <class B>
__device__ __forceinline__ void ask_values(float (&o)[B::kOf.value_width / 2], std::uint32_t (&p)[B::kKeys / 4], std::uint64_t v) {
  ask_rows<B, B::kKeys / 16>(o, p, v);
}

/// The factor of a row's output; writes its log-sum-exp.
__device__ __forceinline__ float finish_row(const ForwardParameter& p, const Work& w, int row, const Rows& rows, int r) {
  float sum = rows.sum[r];
  sum += __shfl_xor_sync(~0u, sum, 1);
  sum += __shfl_xor_sync(~0u, sum, 2);
  if (p.lse != nullptr && threadIdx.x % 4 == 0 && row < p.tiles.queries) {
    p.lse[w.batch * p.lse_strides[0] + row * p.lse_strides[1] + w.head * p.lse_strides[2]] = rows.greatest[r] * p.scale + logf(sum);
  }
  return sum == 0 ? 0 : 1 / sum;  // a NaN stays one
}
/// Straight from the registers, 16 bytes a thread, so that q's shared memory is free for the next queries long before. `first`: the number
/// of the thread's first query, the other is eight further on.
template <class B>
__device__ __forceinline__ void write_outputs(const ForwardParameter& p, const Work& w, int first, const Rows& rows,
                                              float (&o)[B::kOf.value_width / 2]) {
  const int lane = threadIdx.x % 32;
  const float factor[2] = {finish_row(p, w, first, rows, 0), finish_row(p, w, first + 8, rows, 1)};
  rescale(o, factor);
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int row = first + 8 * r;
    unsigned char* const to = p.out + w.batch * p.out_strides[0] + row * p.out_strides[1] + w.head * p.out_strides[2];
#pragma unroll
    for (int c = 0; c < B::kOf.value_width / 8; c += 4) {  // 32 channels: eight for each thread of the quad
      std::uint32_t x[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) x[i] = pack<typename B::Element>(o[4 * (c + i) + 2 * r], o[4 * (c + i) + 2 * r + 1]);
      transpose_in_quad(x, lane);
      const int channel = 8 * (c + lane % 4);
      if (row < p.tiles.queries && channel < p.value_width) *reinterpret_cast<uint4*>(to + 2 * channel) = {x[0], x[1], x[2], x[3]};
    }
  }
}

}  // namespace phasor::cuda::hopper
