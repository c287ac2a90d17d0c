// SPDX-License-Identifier: Apache-2.0
// What the kernels around a backward with tables by distance have in common: blocks of 16 x 16 scores in a warp's registers, between the
// order of strips and that of lines.
//
// A block's rows are what is met (keys on the side of queries), its columns features, in the layout of a product's sums: words[h][g] are
// rows 8 h + lane / 4 and columns 8 g + 2 (lane % 4), two numbers. The same of lines: row z of column f is met by feature f at f + z.
// From one to the other a column moves along rows by its number, so numbers stay within the lanes of one remainder by 4.
#pragma once

#include "cuda/attention/hopper/backward/band/work.hpp"
#include "cuda/attention/hopper/backward/table/body.cuh"
#include "cuda/attention/mma/instructions.cuh"

namespace phasor::cuda::hopper {

/// kSide: whose features a table meets.
template <class Element_, int kOfWidths, int kSide_>
struct BandBody {
  using Element = Element_;
  static constexpr int kWidth = kBackwardWidths[kOfWidths].width, kQueries = kBackwardWidths[kOfWidths].queries, kSide = kSide_;
  static constexpr int kQueryWarps = kQueries / 16;  // as strips are laid out
  static constexpr int kWarps = 4, kThreads = 32 * kWarps;
  static constexpr int kSteps = kWidth / 16;  // of 16 channels
};

using Words = std::uint32_t[2][2];

/// Where strips have the scores of 16 features with 16 others: those of one place follow each other, so that most of it is found once, or
/// once for each tile of queries. Features of the next chunk, if they are of the same tile or block, have theirs `kNext` further on.
template <class T>
struct ScoreBlocks {
  static constexpr int kTileChunks = T::kQueries / kChunkLines, kBlockChunks = kBlockKeys / kChunkLines;
  static constexpr int kStrip = kBlockKeys * T::kQueries / 8, kNext = T::kSide == kOfQueries ? 128 : 32;
  uint4* from = nullptr;
  int tile = -1;

  __device__ __forceinline__ void enter(const BandWork& w, const BandPlace& at, int chunk, int of) {
    tile = of;
    const int before = -near_blocks(w.tiles, w.near, tile).first + (T::kSide == kOfQueries ? 0 : chunk / kBlockChunks);
    const std::int64_t strip = std::int64_t{w.tile_number(at.batch, at.head, tile)} * w.near_blocks + before;
    const int inside = T::kSide == kOfQueries ? chunk % kTileChunks * 128 : chunk % kBlockChunks / 4 * (kTileChunks * 128) + chunk % 4 * 32;
    from = w.strips + strip * kStrip + inside + threadIdx.x % 32;
  }
  __device__ __forceinline__ uint4* at_other(const BandWork& w, const BandPlace& at, int chunk, int other) {
    const int of = (T::kSide == kOfQueries ? chunk : other) / kTileChunks;
    if (of != tile) enter(w, at, chunk, of);
    return from + (T::kSide == kOfQueries ? other / 4 * (kTileChunks * 128) + other % 4 * 32 : other % kTileChunks * 128);
  }
};
__device__ __forceinline__ void unwrap(const uint4& four, std::uint32_t (&words)[4]) {
  words[0] = four.x, words[1] = four.y, words[2] = four.z, words[3] = four.w;
}
/// Strips have keys as rows: on the side of keys that is the other way round.
template <class T>
__device__ __forceinline__ void to_words(const uint4& four, Words& words) {
  std::uint32_t x[4];
  unwrap(four, x);
#pragma unroll
  for (int h = 0; h < 2; ++h) {
#pragma unroll
    for (int g = 0; g < 2; ++g) words[h][g] = T::kSide == kOfQueries ? x[2 * g + h] : transposed_block(x[2 * h + g]);
  }
}
template <class T>
__device__ __forceinline__ uint4 from_words(const Words& words) {
  if constexpr (T::kSide == kOfQueries) return {words[0][0], words[1][0], words[0][1], words[1][1]};
  return {transposed_block(words[0][0]), transposed_block(words[0][1]), transposed_block(words[1][0]), transposed_block(words[1][1])};
}
__device__ __forceinline__ uint4 no_scores() { return {0, 0, 0, 0}; }

__device__ __forceinline__ std::uint32_t low_halves(std::uint32_t a, std::uint32_t b) { return (a & 0xffffU) | b << 16; }
__device__ __forceinline__ std::uint32_t high_halves(std::uint32_t a, std::uint32_t b) { return a >> 16 | (b & 0xffff0000U); }

/// Of what two blocks of scores have: the 16 lines of features that are 16 chunk behind `low`'s.
__device__ __forceinline__ void to_lines(const Words& low, const Words& high, Words& lines, int lane) {
#pragma unroll
  for (int g = 0; g < 2; ++g) {
    std::uint32_t got[2];
#pragma unroll
    for (int x = 0; x < 2; ++x) {
      const int column = 2 * (lane % 4) + x;
      const bool wraps = lane / 4 < column;  // whoever gets this lane's row has it one block of eight further on
      const std::uint32_t first = wraps ? (g == 0 ? low[1][g] : high[0][g]) : low[g][g];
      const std::uint32_t second = wraps ? (g == 0 ? high[0][g] : high[1][g]) : (g == 0 ? low[1][g] : high[0][g]);
      const std::uint32_t both = x == 0 ? low_halves(first, second) : high_halves(first, second);
      got[x] = __shfl_sync(~0u, both, ((lane / 4 + column) & 7) * 4 + lane % 4);
    }
    lines[0][g] = low_halves(got[0], got[1]), lines[1][g] = high_halves(got[0], got[1]);
  }
}

/// Blocks of scores on their way to a warp, kEach for each of its steps: copies hold no registers, so that enough of them are under way. A
/// lane reads what it brought itself, and nobody waits for anybody.
template <int kWarps, int kEach>
struct ScoreRing {
  static constexpr int kAhead = 4;  // steps
  uint4 blocks[kWarps][kAhead][kEach][32];
};
template <int kWarps, int kEach>
struct ScoreWalk {
  static constexpr int kAhead = ScoreRing<kWarps, kEach>::kAhead;
  ScoreRing<kWarps, kEach>& ring;
  int asked = 0, taken = 0;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;

  __device__ __forceinline__ explicit ScoreWalk(ScoreRing<kWarps, kEach>& of) : ring(of) {}

  /// Of a step, in the place of the one that was taken last; null: zeros.
  __device__ __forceinline__ void ask(const BandWork& w, const uint4* const (&from)[kEach]) {
#pragma unroll
    for (int n = 0; n < kEach; ++n) {
      const bool is_there = from[n] != nullptr;
      attention::mma::copy_in(shared_address(&ring.blocks[warp][asked][n][lane]), is_there ? from[n] : w.strips, is_there);
    }
    attention::mma::copies_commit();
    asked = (asked + 1) % kAhead;
  }
  /// The oldest of kAhead steps that were asked for.
  __device__ __forceinline__ void take(uint4 (&to)[kEach]) {
    attention::mma::copies_wait<kAhead - 1>();
#pragma unroll
    for (int n = 0; n < kEach; ++n) to[n] = ring.blocks[warp][taken][n][lane];
    taken = (taken + 1) % kAhead;
  }
};

/// A sum as two numbers of 16 bits, the nearest one in the low half, what is left in the other.
template <class Element>
__device__ __forceinline__ std::uint32_t in_two(float x) {
  const std::uint32_t nearest = narrowed<Element>(x);
  return low_halves(nearest, narrowed<Element>(x - unpack<Element>(nearest).x));
}

/// What features' far tiles have at an end, as the backward left it.
template <class T>
__device__ __forceinline__ float far_sum(const BandWork& w, const BandPlace& at, int feature, int end) {
  const KeyTiles& t = w.tiles;
  const int far = far_side_of(T::kSide, end);
  if constexpr (T::kSide == kOfQueries) {
    const int tile = feature / T::kQueries;
    const Span visitors = key_blocks(t, tile);
    if (tile >= t.tiles() || visitors.first >= visitors.end) return 0;  // nobody has written there
    const float* const sums = w.sums + std::int64_t{w.tile_number(at.batch, at.head, tile)} * dq_numbers(t, true) + kDqNumbers;
    return sums[far * T::kQueries + feature % T::kQueries];
  }
  const Span visited = query_tiles(t, feature / kBlockKeys);
  if (feature >= t.keys || visited.first >= visited.end) return 0;
  return w.far[w.key_number(at.batch, at.head, far, feature)];
}

/// Sums beyond an end of the lines, of 16 features: [g][x] of the feature 8 g + 2 (lane % 4) + x. In every lane of such a column.
template <class T>
__device__ __forceinline__ void sum_beyond(const BandWork& w, const BandPlace& at, int chunk, int end, float (&sum)[2][2]) {
  const int lane = threadIdx.x % 32;
  const Span others = near_chunks(w.tiles, w.near, T::kSide, chunk);
  const int last = chunk + (end == 0 ? w.span.low : w.span.high);  // its block has lines of both kinds
  const int first_other = end == 0 ? others.first : max(others.first, last), end_other = end == 0 ? min(others.end, last + 1) : others.end;
#pragma unroll
  for (int n = 0; n < 4; ++n) sum[n / 2][n % 2] = 0;
  ScoreBlocks<T> blocks;
#pragma unroll 2
  for (int other = first_other; other < end_other; ++other) {
    Words words;
    to_words<T>(*blocks.at_other(w, at, chunk, other), words);
#pragma unroll
    for (int n = 0; n < 8; ++n) {
      const int h = n / 4, g = n / 2 % 2, x = n % 2;
      const float2 both = unpack<typename T::Element>(words[h][g]);
      const bool is_before = 8 * h + lane / 4 < 8 * g + 2 * (lane % 4) + x;
      if (other != last || is_before == (end == 0)) sum[g][x] += x == 0 ? both.x : both.y;
    }
  }
#pragma unroll
  for (int n = 0; n < 4; ++n) {
    float& s = sum[n / 2][n % 2];
#pragma unroll
    for (int x = 4; x < 32; x *= 2) s += __shfl_xor_sync(~0u, s, x);
    s += far_sum<T>(w, at, kChunkLines * chunk + 8 * (n / 2) + 2 * (lane % 4) + n % 2, end);
  }
}

}  // namespace phasor::cuda::hopper
