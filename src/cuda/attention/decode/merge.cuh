// SPDX-License-Identifier: Apache-2.0
// Splits of a row made one, in order: a warp for a row, whose lanes first have a split each, then four channels each.
#pragma once

#include "cuda/attention/decode/instructions.cuh"
#include "cuda/attention/decode/shape.cuh"

namespace phasor::cuda::decode {

/// Splits whose channels are asked for before any is looked at.
constexpr int kSplitsTogether = 16;
/// Of a row: what its splits found.
struct RowPartials {
  const float* numbers;  // of split 0: its greatest score, then its sum
  const float* out;
  int64_t step;  // rows between splits
  int first, end;
};
__device__ __forceinline__ RowPartials partials_of(const DecodeWork& work, int batch, int key_head, int row) {
  const SplitRange splits = seen_splits(seen_keys(work, job::keys_of(work.lengths, batch, work.room)));
  const int64_t at = partial_row(work, batch, key_head, 0, row);
  return {work.partial_sum + at * 2, work.partial_out + at * work.width, rows_of(work), splits.first, splits.end};
}
__device__ __forceinline__ void load_channels(const RowPartials& row, int width, int first, int channel, float4 (&x)[kSplitsTogether]) {
#pragma unroll
  for (int n = 0; n < kSplitsTogether; ++n) {
    x[n] = float4{0, 0, 0, 0};
    if (first + n < row.end && channel < width) x[n] = *reinterpret_cast<const float4*>(row.out + (first + n) * row.step * width + channel);
  }
}
__device__ inline float of_warp_most(float x) {
#pragma unroll
  for (int other = 16; other > 0; other /= 2) x = fmaxf(x, __shfl_xor_sync(0xffffffff, x, other));
  return x;
}
__device__ inline float of_warp_sum(float x) {
#pragma unroll
  for (int other = 16; other > 0; other /= 2) x += __shfl_xor_sync(0xffffffff, x, other);
  return x;
}

struct Softmax {
  float most;
  float from;
  float sum;
};
/// Of all splits and the head's sink.
__device__ __forceinline__ Softmax softmax_of(const DecodeWork& work, const RowPartials& row, int head) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  Softmax all;
  all.most = -INFINITY;
  for (int s = row.first + lane; s < row.end; s += 32) all.most = fmaxf(all.most, row.numbers[s * row.step * 2]);
  all.most = of_warp_most(all.most);
  const bool has_sink = work.sinks.data != nullptr;
  const double sink =
      has_sink ? job::load_element(work.sinks.data, work.sinks.dtype, work.sinks.shape[2] == 1 ? 0 : head * work.sinks.strides[2]) : 0;
  const float sink_2 = static_cast<float>(sink) * kLog2E;
  if (has_sink) all.most = sink_2 != sink_2 ? sink_2 : fmaxf(all.most, sink_2);
  all.from = all.most == -INFINITY ? 0 : all.most;
  float sum = 0;
  for (int s = row.first + lane; s < row.end; s += 32) {
    const float* const number = row.numbers + s * row.step * 2;
    sum += power_of_two(number[0] - all.from) * number[1];
  }
  all.sum = of_warp_sum(sum) + (has_sink ? power_of_two(sink_2 - all.from) : 0);
  return all;
}

/// Row number n of (key heads, rows) of sequence `batch`.
__device__ __forceinline__ void merge_row(const DecodeWork& work, int n, int batch) {
  const int rows = rows_of(work);
  const int key_head = n / rows;
  const int of_head = n - key_head * rows;
  if (key_head >= work.key_heads) return;
  const int query = of_head / work.group;
  const int head = key_head * work.group + of_head - query * work.group;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const RowPartials row = partials_of(work, batch, key_head, of_head);
  float4 x[kSplitsTogether];
  load_channels(row, work.width, row.first, lane * 4, x);  // on their way while the numbers are
  const Softmax all = softmax_of(work, row, head);
  const TensorView& to = work.outputs.out;
  const int64_t at = batch * to.strides[0] + query * to.strides[1] + head * to.strides[2];
  for (int channel = lane * 4; channel < work.width; channel += 128) {
    float out[4] = {};
    for (int first = row.first; first < row.end; first += kSplitsTogether) {
      if (channel >= 128 || first != row.first) load_channels(row, work.width, first, channel, x);
#pragma unroll
      for (int i = 0; i < kSplitsTogether; ++i) {
        const int s = first + i < row.end ? first + i : row.end - 1;  // behind the last there are zeros
        const float factor = power_of_two(row.numbers[s * row.step * 2] - all.from);
        out[0] += factor * x[i].x, out[1] += factor * x[i].y, out[2] += factor * x[i].z, out[3] += factor * x[i].w;
      }
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) job::store_element(to.data, to.dtype, at + channel + i, all.sum == 0 ? 0 : out[i] / all.sum);
  }
  const TensorView& lse = work.outputs.lse;
  if (lane != 0 || lse.data == nullptr) return;
  static_cast<float*>(lse.data)[batch * lse.strides[0] + query * lse.strides[1] + head * lse.strides[2]] =
      all.sum == 0 ? -INFINITY : all.most / kLog2E + logf(all.sum);
}

}  // namespace phasor::cuda::decode
