// SPDX-License-Identifier: Apache-2.0
// Before a backward with tables by distance: products of features with lines, where tiles read them. A warpgroup has 64 features, and its
// four warps walk along a quarter each of the lines of all that is near the block. A chunk of lines is multiplied once, and blocks of
// scores take theirs from two chunks.
#pragma once

#include "cuda/attention/hopper/backward/band/body.cuh"
#include "cuda/attention/mma/instructions.cuh"

namespace phasor::cuda::hopper {

template <class T>
struct ProductsShared {
  static constexpr int kGroups = 2, kStages = 3, kPanels = T::kWidth / 64;
  alignas(1024) std::uint16_t features[kGroups][kPanels][64][64];
  alignas(1024) std::uint16_t lines[kStages][kPanels][64][64];  // a chunk for each warp of a warpgroup
};

template <class T>
struct BandProducts {
  using Element = typename T::Element;
  using Shared = ProductsShared<T>;
  using Product64 = Product<Element, 64>;
  using Lines = float[32];  // a chunk of them, with eight times eight features
  static constexpr int kGroups = Shared::kGroups, kStages = Shared::kStages, kThreads = 128 * kGroups, kFeatures = 64 * kGroups;
  static constexpr int kGroupChunks = 64 / kChunkLines, kVectors = T::kWidth / 8, kTogether = kThreads / kVectors;
  static_assert(kTogether % 8 == 0);  // so the swizzle of what a thread brings is that of its first row
  Shared& shared;
  const BandWork& w;
  const BandPlace& at;  // of the block
  const int lane = threadIdx.x % 32, slot = threadIdx.x / 32 % 4, group = __shfl_sync(~0u, threadIdx.x / 128, 0);
  const int own_chunk;  // the warpgroup's first

  __device__ __forceinline__ BandProducts(Shared& memory, const BandWork& of, const BandPlace& place)
      : shared(memory), w(of), at(place), own_chunk(place.chunk + group * kGroupChunks) {}

  // ---- What comes to shared memory ----

  /// 64 rows, of which this thread brings one piece of every so many; row_of(n): where row n is, null where there is none.
  template <class RowOf>
  __device__ __forceinline__ void bring(std::uint16_t (&to)[Shared::kPanels][64][64], const RowOf& row_of) const {
    const int first = threadIdx.x / kVectors, vector = threadIdx.x % kVectors;
    const std::uint32_t to_row = shared_address(to[vector / 8][first]) + 16 * (vector % 8 ^ first % 8);
#pragma unroll
    for (int n = 0; n < 64; n += kTogether) {
      const uint4* const from = row_of(first + n);
      const bool is_there = from != nullptr;
      attention::mma::copy_in(to_row + 128 * n, is_there ? from + vector : w.lines, is_there);
    }
  }
  __device__ __forceinline__ void bring_features() const {
    const int head = T::kSide == kOfQueries ? at.head : at.head / w.tiles.heads_of_key;
    const int channel = threadIdx.x % kVectors * 8;
    for (int of = 0; of < kGroups; ++of) {
      const int row = kChunkLines * at.chunk + 64 * of;
      bring(shared.features[of], [&](int n) {
        const bool is_there = row + n < w.feature_count(T::kSide) && channel < w.features.width;
        return is_there ? reinterpret_cast<const uint4*>(w.features.row(at.batch, row + n, head)) : nullptr;
      });
    }
  }
  /// Where a line of a chunk is; all beyond an end are its line.
  __device__ __forceinline__ int line_number(int chunk, int line) const {
    if (chunk < w.span.low) return kChunkLines * w.span.chunks();
    return chunk >= w.span.high ? kChunkLines * (w.span.chunks() + 1) : kChunkLines * (chunk - w.span.low) + line;
  }
  /// Chunks of lines, by their numbers. chunk_of(slot): that of a warp.
  template <class ChunkOf>
  __device__ __forceinline__ void bring_lines(int stage, const ChunkOf& chunk_of) const {
    const int chunks = w.span.chunks();
    const uint4* const lines = w.lines + std::int64_t{w.head_of_table(at.head)} * (chunks + 2) * (kChunkLines * kVectors);
    bring(shared.lines[stage], [&](int n) { return lines + line_number(chunk_of(n / kChunkLines), n % kChunkLines) * kVectors; });
  }

  // ---- Products ----

  static __device__ __forceinline__ std::uint64_t slice(std::uint64_t rows, int n) {
    return further(rows, n / 4 * (64 * 128) + n % 4 * 32);
  }
  __device__ __forceinline__ void multiply(Lines& to, int stage) const {
    const std::uint64_t lines = matrix(shared.lines[stage], 0), features = matrix(shared.features[group], 0);
    pin(to);
    products_begin();
#pragma unroll
    for (int n = 0; n < T::kSteps; ++n) Product64::shared(to, slice(lines, n), slice(features, n), n != 0);
    products_commit();
    products_wait<0>();
    pin(to);
  }
  /// What is added to products with two lines of a chunk, the lane's.
  __device__ __forceinline__ float2 of_lines(int chunk) const {
    if (w.of_lines == nullptr) return {0, 0};
    const float* const from = w.of_lines + std::int64_t{at.head} * (w.span.chunks() + 2) * kChunkLines;
    return {from[line_number(chunk, lane / 4)], from[line_number(chunk, lane / 4 + 8)]};
  }
  __device__ __forceinline__ static void add(Lines& to, const float2& more) {
#pragma unroll
    for (int n = 0; n < 32; ++n) to[n] += n % 4 < 2 ? more.x : more.y;
  }
  /// The first line of all, which the warpgroup's first warp has, and the last one, which the second has, for all that lies beyond.
  __device__ __forceinline__ void store_ends(const Lines& lines, bool is_there) const {
    if (lane >= 4 || slot >= 2 || !is_there) return;
    const int far = far_side_of(T::kSide, slot);
#pragma unroll
    for (int n = 0; n < 16; ++n) {
      const int feature = kChunkLines * own_chunk + 8 * (n / 2) + 2 * lane + n % 2;
      const float value = lines[4 * (n / 2) + n % 2] * w.factor * w.scale_log2;
      if constexpr (T::kSide == kOfQueries) {
        float* const lse = w.ends + w.row_number(at.batch, at.head, feature);
        lse[(1 + far) * w.ends_of_side] = lse[0] - value;
      } else {
        w.ends[w.key_number(at.batch, at.head, far, feature)] = value;
      }
    }
  }

  // ---- Scores ----

  /// Of line 8 i + lane / 4 of two chunks: column x of the lane's two.
  template <int kOfFeatures>
  __device__ __forceinline__ static float line_at(const Lines& before, const Lines& now, int i, int x) {
    return i < 2 ? before[4 * kOfFeatures + 2 * i + x] : now[4 * kOfFeatures + 2 * (i - 2) + x];
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
  /// Where a step's scores go, and what the other side has there: asked for while lines are multiplied.
  struct Places {
    uint4* to[kGroupChunks];  // null: not near
    uint4 given[kGroupChunks];
  };
  __device__ __forceinline__ void ask(Places& p, ScoreBlocks<T>& blocks, const Span& others, int other) const {
#pragma unroll
    for (int n = 0; n < kGroupChunks; ++n) {
      const bool is_near = other + n >= others.first && other + n < others.end;
      p.to[n] = is_near ? blocks.at_other(w, at, own_chunk, other + n) + n * ScoreBlocks<T>::kNext : nullptr;
      p.given[n] = T::kSide == kOfKeys && w.adds && is_near ? *p.to[n] : no_scores();
    }
  }
  template <int n = 0>
  __device__ __forceinline__ void put_all(const Lines& before, const Lines& now, const Places& p) const {
    if (p.to[n] != nullptr) put<n>(before, now, p.to[n], p.given[n]);
    if constexpr (n + 1 < kGroupChunks) put_all<n + 1>(before, now, p);
  }

  __device__ __forceinline__ Span others_of(int chunk, int rows) const {
    return kChunkLines * chunk < rows ? near_chunks(w.tiles, w.near, T::kSide, chunk) : Span{0, 0};
  }
  /// `rows`: features with those that fill the last tile or block.
  __device__ __forceinline__ void run(int rows) {
    const Span others = others_of(own_chunk, rows);
    Span met = {kFar, -kFar};  // chunks of lines
#pragma unroll
    for (int of = 0; of < kGroups; ++of) {
      const int chunk = at.chunk + of * kGroupChunks;
      const Span all = others_of(chunk, rows);
      if (all.first < all.end) met = {min(met.first, all.first - chunk - kGroupChunks + 1), max(met.end, all.end - chunk)};
    }
    // Of each warp, after the ends and the chunk before its first one.
    const int length = met.first < met.end ? (met.end - met.first + 3) / 4 : 0, steps = length == 0 ? 1 : length + 2;
    const auto chunk_at = [&](int step, int of) {
      if (step == 0) return of % 2 == 0 ? w.span.low - 1 : w.span.high;
      return met.first + of * length + step - 2;
    };
    const auto bring_step = [&](int step) {
      if (step < steps) bring_lines(step % kStages, [&](int of) { return chunk_at(step, of); });
      attention::mma::copies_commit();
    };
    bring_features();
    for (int step = 0; step < kStages - 1; ++step) bring_step(step);
    ScoreBlocks<T> blocks;
    Lines before;
#pragma unroll 1
    for (int step = 0; step < steps; ++step) {
      attention::mma::copies_wait<kStages - 2>();
      fence_async();
      __syncthreads();
      bring_step(step + kStages - 1);
      Places places = {};
      if (step >= 2) ask(places, blocks, others, chunk_at(step, slot) + own_chunk);
      Lines now;
      const float2 more = of_lines(chunk_at(step, slot));
      multiply(now, step % kStages);
      if constexpr (T::kSide == kOfQueries) add(now, more);
      if (step == 0) store_ends(now, kChunkLines * own_chunk < rows);
      if (step >= 2) put_all(before, now, places);
#pragma unroll
      for (int n = 0; n < 32; ++n) before[n] = now[n];
    }
  }
};

}  // namespace phasor::cuda::hopper
