// SPDX-License-Identifier: Apache-2.0
// After a backward with tables by distance: what features get, gradients of scores by line times the lines. A warp has 32 features and
// walks along the lines, as before the backward; what lies beyond an end is summed first, and is one line.
#pragma once

#include "cuda/attention/hopper/backward/band/body.cuh"
#include "cuda/attention/hopper/forward/softmax.cuh"

namespace phasor::cuda::hopper {

template <class T>
struct BandFeatures {
  using Element = typename T::Element;
  const BandWork& w;
  BandPlace at;  // of the heads that share a key head, one after the other
  const int lane = threadIdx.x % 32;
  ScoreWalk<T, 2> scores;               // of 16 features and 16
  float sum[2][2 * T::kSteps][4] = {};  // of 16 features and eight channels

  __device__ __forceinline__ BandFeatures(ScoreRing<T, 2>& ring, const BandWork& of, const BandPlace& place)
      : w(of), at(place), scores(ring) {}

  /// Rows of features from lines: what a product takes as its left operand.
  __device__ __forceinline__ static void across(const Words& lines, std::uint32_t (&to)[4]) {
#pragma unroll
    for (int x = 0; x < 4; ++x) to[x] = transposed_block(lines[x / 2][x % 2]);
  }
  /// A chunk of the table, by number of those that there are.
  __device__ __forceinline__ void multiply(const std::uint32_t (&first)[4], const std::uint32_t (&second)[4], int number) {
    const std::int64_t chunks = std::int64_t{w.head_of_table(at.head)} * (w.span.chunks() + 2) + number;
    const uint4* const from = w.right + chunks * (T::kSteps * 32) + lane;
#pragma unroll
    for (int x = 0; x < T::kSteps; ++x) {
      const uint4 rows = from[32 * x];
      multiply_blocks<Element>(sum[0][2 * x], first, rows.x, rows.y);
      multiply_blocks<Element>(sum[1][2 * x], second, rows.x, rows.y);
      multiply_blocks<Element>(sum[0][2 * x + 1], first, rows.z, rows.w);
      multiply_blocks<Element>(sum[1][2 * x + 1], second, rows.z, rows.w);
    }
  }
  /// Where scores of features 16 n and further with what is `other` chunks on are; null: they are not near.
  __device__ __forceinline__ const uint4* place_of(ScoreBlocks<T>& blocks, const Span& others, int n, int other) const {
    if (other < others.first || other >= others.end) return nullptr;
    return blocks.at_other(w, at, at.chunk, other) + n * ScoreBlocks<T>::kNext;
  }
  __device__ __forceinline__ void walk() {
    const Span others = near_chunks(w.tiles, w.near, T::kSide, at.chunk);
    if (others.first >= others.end) return;
    const int first = max(w.span.low, others.first - at.chunk - 2), end = min(w.span.high, others.end - at.chunk);
    if (first >= end) return;
    ScoreBlocks<T> places;
    const auto ask = [&](int chunk) {
      const uint4* const from[2] = {place_of(places, others, 0, at.chunk + chunk), place_of(places, others, 1, at.chunk + 1 + chunk)};
      scores.ask(w, from, chunk <= end);
    };
    for (int n = 0; n < scores.kAhead; ++n) ask(first + n);
    Words low[2], high[2];
    uint4 given[2];
    scores.take(given);
    ask(first + scores.kAhead);
#pragma unroll
    for (int n = 0; n < 2; ++n) to_words<T>(given[n], low[n]);
#pragma unroll 1
    for (int chunk = first; chunk < end; ++chunk) {
      scores.take(given);
      ask(chunk + 1 + scores.kAhead);
      std::uint32_t blocks[2][4];
#pragma unroll
      for (int n = 0; n < 2; ++n) {
        to_words<T>(given[n], high[n]);
        Words lines;
        to_lines(low[n], high[n], lines, lane);
        across(lines, blocks[n]);
#pragma unroll
        for (int x = 0; x < 4; ++x) low[n][x / 2][x % 2] = high[n][x / 2][x % 2];
      }
      multiply(blocks[0], blocks[1], chunk - w.span.low);
    }
  }
  /// For the gradient of the table.
  __device__ __forceinline__ void keep(int n, int end, const float (&beyond)[2][2]) const {
    if (lane >= 4) return;
    float* const to = w.beyond + w.feature_number(T::kSide, at, kChunkLines * (at.chunk + n), end);
#pragma unroll
    for (int g = 0; g < 2; ++g) *reinterpret_cast<float2*>(to + 8 * g + 2 * lane) = {beyond[g][0], beyond[g][1]};
  }
  /// Sums beyond an end, in two numbers of 16 bits each, so that they lose nothing that counts.
  __device__ __forceinline__ void add_end(int end) {
    std::uint32_t blocks[2][4];
#pragma unroll
    for (int n = 0; n < 2; ++n) {
      float beyond[2][2];
      sum_beyond<T>(w, at, at.chunk + n, end, beyond);
      keep(n, end, beyond);
#pragma unroll
      for (int g = 0; g < 2; ++g) {
        const float even = __shfl_sync(~0u, beyond[g][0], lane / 8), odd = __shfl_sync(~0u, beyond[g][1], lane / 8);
        blocks[n][g] = lane % 4 == 0 ? in_two<Element>(lane / 4 % 2 == 0 ? even : odd) : 0;
        blocks[n][2 + g] = 0;
      }
    }
    multiply(blocks[0], blocks[1], w.span.chunks() + end);
  }
  /// What the backward itself gave, as its registers lie.
  __device__ __forceinline__ const float4* given(int n) const {
    const KeyTiles& t = w.tiles;
    const int feature = kChunkLines * (at.chunk + n), thread = feature / 16 % 4 * 32 + lane;
    if constexpr (T::kSide == kOfQueries) {
      const float* const numbers = w.sums + std::int64_t{w.tile_number(at.batch, at.head, feature / T::kQueries)} * dq_numbers(t, true);
      return reinterpret_cast<const float4*>(numbers) + (T::kQueries == 128 ? feature / 64 % 2 * 1024 : 0) + thread;
    }
    const std::int64_t block = (std::int64_t{at.batch} * t.key_heads() + at.head / t.heads_of_key) * t.blocks() + feature / kBlockKeys;
    return reinterpret_cast<const float4*>(w.sums) + block * (kBlockKeys * T::kWidth / 4) + feature / 64 % 2 * (16 * T::kWidth) + thread;
  }
  __device__ __forceinline__ void finish() {
    const float of_table = w.factor * w.scale;
#pragma unroll
    for (int n = 0; n < 2; ++n) {
      const Span visited = T::kSide == kOfQueries ? key_blocks(w.tiles, (at.chunk + n) * kChunkLines / T::kQueries) : Span{0, 1};
      const float4* const from = given(n);
#pragma unroll
      for (int x = 0; x < 2 * T::kSteps; ++x) {
        const float4 y = visited.first < visited.end ? from[128 * x] : float4{0, 0, 0, 0};
        float(&s)[4] = sum[n][x];
        s[0] = s[0] * of_table + y.x * w.scale, s[1] = s[1] * of_table + y.y * w.scale;
        s[2] = s[2] * of_table + y.z * w.scale, s[3] = s[3] * of_table + y.w * w.scale;
      }
      store(n);
    }
  }
  __device__ __forceinline__ void store(int n) const {
    const int head = T::kSide == kOfQueries ? at.head : at.head / w.tiles.heads_of_key;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int row = kChunkLines * (at.chunk + n) + lane / 4 + 8 * r;
#pragma unroll
      for (int c = 0; c < 2 * T::kSteps; c += 4) {
        std::uint32_t x[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) x[i] = pack<Element>(sum[n][c + i][2 * r], sum[n][c + i][2 * r + 1]);
        transpose_in_quad(x, lane);
        const int channel = 8 * (c + lane % 4);
        if (row >= w.feature_count(T::kSide) || channel >= w.to.width) continue;
        *reinterpret_cast<uint4*>(w.to.row(at.batch, row, head) + 2 * channel) = {x[0], x[1], x[2], x[3]};
      }
    }
  }
  /// What is added to queries gets the sums over them: of what the backward gave where they meet keys, of lines where they meet rows.
  __device__ __forceinline__ void keep_shift_sums() const {
    const int row = kChunkLines * at.chunk;
    const std::int64_t part = (std::int64_t{at.batch} * w.tiles.heads + at.head) * shift_parts(w.tiles) + row / 32;
#pragma unroll
    for (int x = 0; x < 2 * T::kSteps; ++x) {
      float of[2][2] = {};
#pragma unroll
      for (int n = 0; n < 2; ++n) {
        const Span visited = key_blocks(w.tiles, (at.chunk + n) * kChunkLines / T::kQueries);
        const float4 y = visited.first < visited.end ? given(n)[128 * x] : float4{0, 0, 0, 0};
        const float(&s)[4] = sum[n][x];
        const bool is_there[2] = {row + kChunkLines * n + lane / 4 < w.tiles.queries,
                                  row + kChunkLines * n + lane / 4 + 8 < w.tiles.queries};
        if (is_there[0]) of[0][0] += y.x, of[0][1] += y.y, of[1][0] += s[0], of[1][1] += s[1];
        if (is_there[1]) of[0][0] += y.z, of[0][1] += y.w, of[1][0] += s[2], of[1][1] += s[3];
      }
#pragma unroll
      for (int n = 0; n < 2; ++n) {
#pragma unroll
        for (int i = 4; i < 32; i *= 2) of[n][0] += __shfl_xor_sync(~0u, of[n][0], i), of[n][1] += __shfl_xor_sync(~0u, of[n][1], i);
        if (lane >= 4 || w.shift_sums[n] == nullptr) continue;
        *reinterpret_cast<float2*>(w.shift_sums[n] + part * T::kWidth + 8 * x + 2 * lane) = {of[n][0], of[n][1]};
      }
    }
  }
  /// `at.head` is the first one of those that share the features.
  __device__ __forceinline__ void run() {
    const int heads = T::kSide == kOfQueries ? 1 : w.tiles.heads_of_key;
    for (int n = 0; n < heads && w.span.chunks() > 0; ++n) {
      walk();
      add_end(0);
      add_end(1);
      ++at.head;
    }
    at.head -= w.span.chunks() > 0 ? heads : 0;
    if constexpr (T::kSide == kOfQueries) {
      if (w.has_shift_sums()) keep_shift_sums();
    }
    if (w.to.data != nullptr) finish();
  }
};

}  // namespace phasor::cuda::hopper
