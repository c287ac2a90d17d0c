// SPDX-License-Identifier: Apache-2.0
// What is added to queries beside tables by distance, (q + u) . k + (q + v) . row: copies of queries with it, for the backward itself and
// for the gradient of rows; products of v with lines, for scores. And its gradients: sums over queries of what these get, of keys and of
// rows by themselves.
#pragma once

#include "cuda/attention/hopper/backward/tiles.hpp"
#include "cuda/attention/hopper/instructions.cuh"
#include "cuda/attention/hopper/tensor_rows.hpp"
#include "job/element.hpp"

namespace phasor::cuda::hopper {

// ---- Queries ----

struct ShiftedWork {
  KeyTiles tiles;
  InputRows from;
  ConstTensorView vector;  // (1, 1, H or 1, D)
  uint4* to;               // (B, H, queries, channels / 8)
};
/// Eight channels of a query, rounded once.
template <class Element>
__device__ __forceinline__ void shift_query(const ShiftedWork& w, int x, int head, int batch) {
  const int vectors = w.from.width / 8, row = x / vectors, channel = x % vectors * 8;
  if (row >= w.tiles.queries) return;
  const uint4 four = *reinterpret_cast<const uint4*>(w.from.row(batch, row, head) + 2 * channel);
  const std::uint32_t words[4] = {four.x, four.y, four.z, four.w};
  const std::int64_t at = w.vector.shape[2] == 1 ? 0 : head * w.vector.strides[2];
  const auto shift = [&](int c) {
    return static_cast<float>(job::load_element(w.vector.data, w.vector.dtype, at + (channel + c) * w.vector.strides[3]));
  };
  std::uint32_t sums[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float2 of = unpack<Element>(words[i]);
    sums[i] = pack<Element>(of.x + shift(2 * i), of.y + shift(2 * i + 1));
  }
  w.to[((std::int64_t{batch} * w.tiles.heads + head) * w.tiles.queries + row) * vectors + x % vectors] = {sums[0], sums[1], sums[2],
                                                                                                          sums[3]};
}

// ---- Lines ----

struct LineSumsWork {
  const uint4* lines;  // BandWork::lines
  int of_head;         // so many, with those of the two chunks behind
  bool by_head;
  ConstTensorView vector;
  float* to;  // BandWork::of_lines
};
/// A line times the vector.
template <class Element, int kWidth>
__device__ __forceinline__ void multiply_line(const LineSumsWork& w, int line, int head) {
  if (line >= w.of_head) return;
  const uint4* const from = w.lines + (std::int64_t{w.by_head ? head : 0} * w.of_head + line) * (kWidth / 8);
  const std::int64_t at = w.vector.shape[2] == 1 ? 0 : head * w.vector.strides[2];
  float sum = 0;
  for (int c = 0; c < w.vector.shape[3]; c += 8) {
    const uint4 four = from[c / 8];
    const std::uint32_t words[4] = {four.x, four.y, four.z, four.w};
    const auto shift = [&](int x) {
      return static_cast<float>(job::load_element(w.vector.data, w.vector.dtype, at + (c + x) * w.vector.strides[3]));
    };
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float2 of = unpack<Element>(words[i]);
      sum = fmaf(of.y, shift(2 * i + 1), fmaf(of.x, shift(2 * i), sum));
    }
  }
  w.to[std::int64_t{head} * w.of_head + line] = sum;
}

// ---- Gradients ----

struct ShiftEnds {
  KeyTiles tiles;
  float* sums;  // BandWork::shift_sums
  int pitch;    // between them
  int channels;
  int heads;  // of the vector
  float scale;
  float* gradient;
  bool adds;

  PHASOR_HD std::int64_t of_head(int batch, int head) const {
    return (std::int64_t{batch} * tiles.heads + head) * shift_parts(tiles) * pitch;
  }
};
/// Of all queries of a head, in order, into the first part.
__device__ __forceinline__ void add_queries(const ShiftEnds& w, int channel, int head) {
  if (channel >= w.channels) return;
  float sum = 0;
  for (int batch = 0; batch < w.tiles.batch; ++batch) {
    const float* const from = w.sums + w.of_head(batch, head) + channel;
#pragma unroll 8
    for (int part = 0; part < shift_parts(w.tiles); ++part) sum += from[part * w.pitch];
  }
  w.sums[w.of_head(0, head) + channel] = sum;
}
/// Of one of the vector's heads.
__device__ __forceinline__ void store_shift(const ShiftEnds& w, int channel, int head) {
  if (channel >= w.channels) return;
  const int end = w.heads == 1 ? w.tiles.heads : head + 1;
  float sum = 0;
  for (int h = head; h < end; ++h) sum += w.sums[w.of_head(0, h) + channel];
  float& to = w.gradient[head * w.channels + channel];
  to = sum * w.scale + (w.adds ? to : 0);
}

}  // namespace phasor::cuda::hopper
