// SPDX-License-Identifier: Apache-2.0
// After a backward with tables by distance: what features get, gradients of scores by line times the lines. A warp has 16 features, a
// warpgroup 64, and the block walks along the lines, which it brings to shared memory a few chunks ahead; what lies beyond an end is summed
// first, and is one line.
#pragma once

#include "cuda/attention/hopper/backward/band/body.cuh"
#include "cuda/attention/hopper/forward/softmax.cuh"
#include "cuda/attention/mma/instructions.cuh"

namespace phasor::cuda::hopper {

template <class T>
struct FeaturesShared {
  static constexpr int kStages = 3, kChunks = 4;  // of a stage
  alignas(1024) std::uint16_t lines[kStages][T::kWidth / 64][kChunks * kChunkLines][64];
};

template <class T>
struct BandFeatures {
  using Element = typename T::Element;
  using Shared = FeaturesShared<T>;
  using Product64 = Product<Element, T::kWidth>;  // of 64 features
  static constexpr int kGroups = 2, kThreads = 128 * kGroups, kFeatures = 64 * kGroups, kStages = Shared::kStages,
                       kChunks = Shared::kChunks;
  static constexpr int kGroupChunks = 64 / kChunkLines;
  Shared& shared;
  const BandWork& w;
  BandPlace at;  // of the warp; of the heads that share a key head, one after the other
  const int lane = threadIdx.x % 32;
  const int first_chunk;  // of the block
  const bool is_there;    // some feature of the warpgroup
  float sum[T::kWidth / 2] = {};

  __device__ __forceinline__ BandFeatures(Shared& memory, const BandWork& of, const BandPlace& place)
      : shared(memory),
        w(of),
        at{place.batch, place.head, place.chunk + static_cast<int>(threadIdx.x / 32)},
        first_chunk(place.chunk),
        is_there(kChunkLines * (place.chunk + static_cast<int>(threadIdx.x / 128) * kGroupChunks) < of.feature_count(T::kSide)) {}

  // ---- Lines ----

  /// Chunks of the table, by number of those that there are, which end at `end`, to a stage.
  __device__ __forceinline__ void bring(int stage, int number, int end) const {
    constexpr int kVectors = T::kWidth / 8, kTogether = kThreads / kVectors;
    static_assert(kTogether % 8 == 0);  // so the swizzle is that of the first line
    const int first = threadIdx.x / kVectors, vector = threadIdx.x % kVectors;
    const std::int64_t of_head = std::int64_t{w.head_of_table(at.head)} * (w.span.chunks() + 2);
    const uint4* const from = w.lines + ((of_head + number) * kChunkLines + first) * kVectors + vector;
    const std::uint32_t to = shared_address(shared.lines[stage][vector / 8][first]) + 16 * (vector % 8 ^ first % 8);
#pragma unroll
    for (int n = 0; n < kChunks * kChunkLines; n += kTogether) {
      const bool is_line = number + (first + n) / kChunkLines < end;
      attention::mma::copy_in(to + 128 * n, is_line ? from + n * kVectors : w.lines, is_line);
    }
  }
  /// So many chunks of a stage times the left operands of this warp's features.
  template <int kCount>
  __device__ __forceinline__ void multiply(std::uint32_t (&blocks)[kCount][4], int stage) {
    const std::uint64_t lines = matrix(shared.lines[stage], int(sizeof(shared.lines[stage][0])));
    pin(sum);
    products_begin();
#pragma unroll
    for (int n = 0; n < kCount; ++n) Product64::registers(sum, blocks[n], further(lines, n * kChunkLines * 128));
    products_commit();
    products_wait<0>();
    pin(sum);
#pragma unroll
    for (int n = 0; n < kCount; ++n) pin(blocks[n]);
  }
  /// Rows of features from lines: what a product takes as its left operand.
  __device__ __forceinline__ static void across(const Words& lines, std::uint32_t (&to)[4]) {
#pragma unroll
    for (int x = 0; x < 4; ++x) to[x] = transposed_block(lines[x / 2][x % 2]);
  }

  // ---- What is near ----

  /// Scores of features with what is `other` chunks on; zeros where they are not near.
  __device__ __forceinline__ uint4 scores(ScoreBlocks<T>& blocks, const Span& others, int other) const {
    if (other < others.first || other >= others.end) return no_scores();
    return *blocks.at_other(w, at, at.chunk, other);
  }
  __device__ __forceinline__ Span others_of(int group) const {
    const int chunk = first_chunk + group * kGroupChunks;
    return kChunkLines * chunk < w.feature_count(T::kSide) ? near_chunks(w.tiles, w.near, T::kSide, chunk) : Span{0, 0};
  }
  /// Chunks of lines that some feature of the block meets.
  __device__ __forceinline__ Span lines_met() const {
    Span met = {w.span.high, w.span.low};
#pragma unroll
    for (int group = 0; group < kGroups; ++group) {
      const Span others = others_of(group);
      const int chunk = first_chunk + group * kGroupChunks;
      if (others.first >= others.end) continue;
      met = {min(met.first, others.first - chunk - kGroupChunks), max(met.end, others.end - chunk)};
    }
    return {max(met.first, w.span.low), min(met.end, w.span.high)};
  }
  __device__ __forceinline__ void walk() {
    const Span others = others_of(threadIdx.x / 128), met = lines_met();
    const int first = met.first - w.span.low, stages = (met.end - met.first + kChunks - 1) / kChunks;
    ScoreBlocks<T> places;
    Words low;
    uint4 next[kChunks];
    if (stages > 0) to_words<T>(scores(places, others, at.chunk + met.first), low);
#pragma unroll
    for (int n = 0; n < kChunks; ++n) next[n] = scores(places, others, at.chunk + met.first + n + 1);
    __syncthreads();  // nobody reads lines any more
    for (int stage = 0; stage < kStages - 1; ++stage) {
      if (stage < stages) bring(stage, first + stage * kChunks, w.span.chunks());
      attention::mma::copies_commit();
    }
#pragma unroll 1
    for (int stage = 0; stage < stages; ++stage) {
      attention::mma::copies_wait<kStages - 2>();
      fence_async();
      __syncthreads();
      const int later = stage + kStages - 1;
      if (later < stages) bring(later % kStages, first + later * kChunks, w.span.chunks());
      attention::mma::copies_commit();
      std::uint32_t blocks[kChunks][4];
#pragma unroll
      for (int n = 0; n < kChunks; ++n) {
        Words high, lines;
        to_words<T>(next[n], high);
        to_lines(low, high, lines, lane);
        across(lines, blocks[n]);
#pragma unroll
        for (int x = 0; x < 4; ++x) low[x / 2][x % 2] = high[x / 2][x % 2];
      }
#pragma unroll
      for (int n = 0; n < kChunks; ++n) next[n] = scores(places, others, at.chunk + met.first + (stage + 1) * kChunks + n + 1);
      multiply(blocks, stage % kStages);
    }
  }

  // ---- What lies beyond the ends ----

  /// For the gradient of the table.
  __device__ __forceinline__ void keep(int end, const float (&beyond)[2][2]) const {
    if (lane >= 4) return;
    float* const to = w.beyond + w.feature_number(T::kSide, at, kChunkLines * at.chunk, end);
#pragma unroll
    for (int g = 0; g < 2; ++g) *reinterpret_cast<float2*>(to + 8 * g + 2 * lane) = {beyond[g][0], beyond[g][1]};
  }
  /// Sums beyond an end, in two numbers of 16 bits each, so that they lose nothing that counts.
  __device__ __forceinline__ void sum_end(int end, std::uint32_t (&block)[4]) const {
    float beyond[2][2];
    sum_beyond<T>(w, at, at.chunk, end, beyond);
    keep(end, beyond);
#pragma unroll
    for (int g = 0; g < 2; ++g) {
      const float even = __shfl_sync(~0u, beyond[g][0], lane / 8), odd = __shfl_sync(~0u, beyond[g][1], lane / 8);
      block[g] = lane % 4 == 0 ? in_two<Element>(lane / 4 % 2 == 0 ? even : odd) : 0;
    }
  }
  __device__ __forceinline__ void add_ends() {
    std::uint32_t blocks[2][4] = {};
    __syncthreads();  // nobody reads lines any more
    bring(0, w.span.chunks(), w.span.chunks() + 2);
    attention::mma::copies_commit();
    if (is_there) sum_end(0, blocks[0]), sum_end(1, blocks[1]);
    attention::mma::copies_wait<0>();
    fence_async();
    __syncthreads();
    multiply(blocks, 0);
  }

  // ---- What features get ----

  /// What the backward itself gave, as its registers lie.
  __device__ __forceinline__ const float4* given() const {
    const KeyTiles& t = w.tiles;
    const int feature = kChunkLines * at.chunk, thread = threadIdx.x % 128;
    if constexpr (T::kSide == kOfQueries) {
      const float* const numbers = w.sums + std::int64_t{w.tile_number(at.batch, at.head, feature / T::kQueries)} * dq_numbers(t, true);
      return reinterpret_cast<const float4*>(numbers) + (T::kQueries == 128 ? feature / 64 % 2 * 1024 : 0) + thread;
    }
    const std::int64_t block = (std::int64_t{at.batch} * t.key_heads() + at.head / t.heads_of_key) * t.blocks() + feature / kBlockKeys;
    return reinterpret_cast<const float4*>(w.sums) + block * (kBlockKeys * T::kWidth / 4) + feature / 64 % 2 * (16 * T::kWidth) + thread;
  }
  __device__ __forceinline__ bool is_given() const {
    const Span visited = T::kSide == kOfQueries ? key_blocks(w.tiles, at.chunk * kChunkLines / T::kQueries) : Span{0, 1};
    return visited.first < visited.end;
  }
  __device__ __forceinline__ void finish() {
    const float of_table = w.factor * w.scale;
    const bool any = is_given();
    const float4* const from = given();
#pragma unroll
    for (int x = 0; x < T::kWidth / 8; ++x) {
      const float4 y = any ? from[128 * x] : float4{0, 0, 0, 0};
      float* const s = sum + 4 * x;
      s[0] = s[0] * of_table + y.x * w.scale, s[1] = s[1] * of_table + y.y * w.scale;
      s[2] = s[2] * of_table + y.z * w.scale, s[3] = s[3] * of_table + y.w * w.scale;
    }
    store();
  }
  __device__ __forceinline__ void store() const {
    const int head = T::kSide == kOfQueries ? at.head : at.head / w.tiles.heads_of_key;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int row = kChunkLines * at.chunk + lane / 4 + 8 * r;
#pragma unroll
      for (int c = 0; c < T::kWidth / 8; c += 4) {
        std::uint32_t x[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) x[i] = pack<Element>(sum[4 * (c + i) + 2 * r], sum[4 * (c + i) + 2 * r + 1]);
        transpose_in_quad(x, lane);
        const int channel = 8 * (c + lane % 4);
        if (row >= w.feature_count(T::kSide) || channel >= w.to.width) continue;
        *reinterpret_cast<uint4*>(w.to.row(at.batch, row, head) + 2 * channel) = {x[0], x[1], x[2], x[3]};
      }
    }
  }
  /// What is added to queries gets the sums over them: of what the backward gave where they meet keys, of lines where they meet rows.
  __device__ __forceinline__ void keep_shift_sums() const {
    const int row = kChunkLines * at.chunk + lane / 4;
    const std::int64_t part = (std::int64_t{at.batch} * w.tiles.heads + at.head) * shift_parts(w.tiles) + at.chunk;
    const bool any = is_given(), counts[2] = {row < w.tiles.queries, row + 8 < w.tiles.queries};
    const float4* const from = given();
#pragma unroll
    for (int x = 0; x < T::kWidth / 8; ++x) {
      const float4 y = any ? from[128 * x] : float4{0, 0, 0, 0};
      const float* const s = sum + 4 * x;
      float of[2][2] = {};
      if (counts[0]) of[0][0] = y.x, of[0][1] = y.y, of[1][0] = s[0], of[1][1] = s[1];
      if (counts[1]) of[0][0] += y.z, of[0][1] += y.w, of[1][0] += s[2], of[1][1] += s[3];
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
      add_ends();
      ++at.head;
    }
    at.head -= w.span.chunks() > 0 ? heads : 0;
    if (!is_there) return;
    if constexpr (T::kSide == kOfQueries) {
      if (w.has_shift_sums() && kChunkLines * at.chunk < w.tiles.queries) keep_shift_sums();
    }
    if (w.to.data != nullptr) finish();
  }
};

}  // namespace phasor::cuda::hopper
