// SPDX-License-Identifier: Apache-2.0
// Before a backward with tables by distance: products of features with lines, where tiles read them. A warp has 32 features and walks along
// the lines of all that is near them; each chunk of lines is multiplied once, and blocks of scores take theirs from two chunks.
#pragma once

#include "cuda/attention/hopper/backward/band/body.cuh"

namespace phasor::cuda::hopper {

template <class T>
struct BandProducts {
  using Element = typename T::Element;
  using Lines = float[4][4];  // a chunk of them, with four times eight features
  const BandWork& w;
  const BandPlace& at;
  const int lane = threadIdx.x % 32;
  std::uint32_t features[T::kSteps][4][2];
  float ends[2][4][2];

  __device__ __forceinline__ BandProducts(const BandWork& of, const BandPlace& place) : w(of), at(place) {
    const int head = T::kSide == kOfQueries ? at.head : at.head / w.tiles.heads_of_key;
#pragma unroll
    for (int n = 0; n < 4; ++n) {
      const int row = kChunkLines * at.chunk + 8 * n + lane / 4;
      const unsigned char* const from = w.features.row(at.batch, row, head) + 4 * (lane % 4);
#pragma unroll
      for (int x = 0; x < 2 * T::kSteps; ++x) {
        const bool is_there = row < w.feature_count(T::kSide) && 8 * x < w.features.width;
        features[x / 2][n][x % 2] = is_there ? *reinterpret_cast<const std::uint32_t*>(from + 16 * x) : 0;
      }
    }
  }
  __device__ __forceinline__ void multiply(Lines& to, int chunk) const {
    const std::int64_t number = std::int64_t{w.head_of_table(at.head)} * w.span.chunks() + (chunk - w.span.low);
    const uint4* const from = w.left + number * (T::kSteps * 32) + lane;
#pragma unroll
    for (int n = 0; n < 16; ++n) to[n / 4][n % 4] = 0;
#pragma unroll
    for (int x = 0; x < T::kSteps; ++x) {
      std::uint32_t lines[4];
      unwrap(from[32 * x], lines);
#pragma unroll
      for (int n = 0; n < 4; ++n) multiply_blocks<Element>(to[n], lines, features[x][n][0], features[x][n][1]);
    }
  }
  __device__ __forceinline__ void bring(Lines& to, int chunk) const {
    if (chunk >= w.span.low && chunk < w.span.high) return multiply(to, chunk);
#pragma unroll
    for (int n = 0; n < 16; ++n) to[n / 4][n % 4] = chunk < w.span.low ? ends[0][n / 4][n % 2] : ends[1][n / 4][n % 2];
  }
  /// The first line of all and the last one, for all that lies beyond.
  __device__ __forceinline__ void make_ends() {
    Lines lines;
    multiply(lines, w.span.low);
#pragma unroll
    for (int n = 0; n < 8; ++n) ends[0][n / 2][n % 2] = __shfl_sync(~0u, lines[n / 2][n % 2], lane % 4);
    multiply(lines, w.span.high - 1);
#pragma unroll
    for (int n = 0; n < 8; ++n) ends[1][n / 2][n % 2] = __shfl_sync(~0u, lines[n / 2][2 + n % 2], 28 + lane % 4);
  }
  __device__ __forceinline__ void store_ends() const {
    if (lane >= 4) return;
#pragma unroll
    for (int n = 0; n < 16; ++n) {
      const int feature = kChunkLines * at.chunk + 8 * (n / 4) + 2 * lane + n % 2, end = n / 2 % 2;
      const float value = ends[end][n / 4][n % 2] * w.factor * w.scale_log2;
      const int far = far_side_of(T::kSide, end);
      if constexpr (T::kSide == kOfQueries) {
        float* const lse = w.ends + w.row_number(at.batch, at.head, feature);
        lse[(1 + far) * w.ends_of_side] = lse[0] - value;
      } else {
        w.ends[w.key_number(at.batch, at.head, far, feature)] = value;
      }
    }
  }
  /// Of line 8 i + lane / 4 of two chunks: column x of the lane's two.
  template <int kOfFeatures>
  __device__ __forceinline__ static float line_at(const Lines& before, const Lines& now, int i, int x) {
    return i < 2 ? before[kOfFeatures][2 * i + x] : now[kOfFeatures][2 * (i - 2) + x];
  }
  /// Scores of features 16 n and further with what is `other` chunks on: their lines are the last chunk's and the one's before it.
  template <int n>
  __device__ __forceinline__ void put(const Lines& before, const Lines& now, uint4* to, const uint4& given) const {
    Words words;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      float got[2][2];
#pragma unroll
      for (int x = 0; x < 2; ++x) {
        const int column = 2 * (lane % 4) + x, from = ((lane / 4 - column) & 7) * 4 + lane % 4;
        const bool wraps = lane / 4 + column >= 8;  // whoever gets this lane's line has it one block of eight further on
        const float first = wraps ? line_at<2 * n>(before, now, 1 + h, x) : line_at<2 * n>(before, now, 2 + h, x);
        const float second = wraps ? line_at<2 * n + 1>(before, now, h, x) : line_at<2 * n + 1>(before, now, 1 + h, x);
        got[0][x] = __shfl_sync(~0u, first, from) * w.factor, got[1][x] = __shfl_sync(~0u, second, from) * w.factor;
      }
#pragma unroll
      for (int g = 0; g < 2; ++g) words[h][g] = halves_of(got[g][0], got[g][1]);
    }
    const uint4 four = from_words<T>(words);
    *to = T::kSide == kOfKeys && w.adds ? sum_of(four, given) : four;
  }
  __device__ __forceinline__ static uint4 sum_of(const uint4& a, const uint4& b) {
    const auto add = [](std::uint32_t x, std::uint32_t y) {
      const float2 p = unpack<__half>(x), q = unpack<__half>(y);
      return halves_of(p.x + q.x, p.y + q.y);
    };
    return {add(a.x, b.x), add(a.y, b.y), add(a.z, b.z), add(a.w, b.w)};
  }
  __device__ __forceinline__ void run() {
    make_ends();
    store_ends();
    const Span others = near_chunks(w.tiles, w.near, T::kSide, at.chunk);  // the same of both chunks
    if (others.first >= others.end) return;
    Lines before, now;
    ScoreBlocks<T> blocks;
    bring(before, others.first - at.chunk - 2);
#pragma unroll 1
    for (int chunk = others.first - at.chunk - 1; chunk < others.end - at.chunk; ++chunk) {
      const int other = chunk + at.chunk;
      const bool is_there[2] = {other >= others.first, other + 1 < others.end};
      uint4* to[2] = {};
      uint4 given[2] = {};  // of the other side, asked for while lines are multiplied
#pragma unroll
      for (int n = 0; n < 2; ++n) {
        if (!is_there[n]) continue;
        to[n] = blocks.at_other(w, at, at.chunk, other + n) + n * ScoreBlocks<T>::kNext;
        if (T::kSide == kOfKeys && w.adds) given[n] = *to[n];
      }
      bring(now, chunk);
      if (is_there[0]) put<0>(before, now, to[0], given[0]);
      if (is_there[1]) put<1>(before, now, to[1], given[1]);
#pragma unroll
      for (int n = 0; n < 16; ++n) before[n / 4][n % 4] = now[n / 4][n % 4];
    }
  }
};

}  // namespace phasor::cuda::hopper
