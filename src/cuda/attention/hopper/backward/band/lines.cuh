// SPDX-License-Identifier: Apache-2.0
// A table by distance laid out by lines, before a backward; after it, the gradient of the table: gradients of scores by line across times
// features. A warp has 32 lines and walks along the features of a head; what it sums is added up by row at the end.
#pragma once

#include "cuda/attention/hopper/backward/band/body.cuh"
#include "cuda/attention/mma/instructions.cuh"

namespace phasor::cuda::hopper {

// ---- Lines of a table ----

template <int kSide>
__device__ __forceinline__ int row_of_line(const BandWork& w, int z) {
  return static_cast<int>(attention::row_by_distance(w.map, distance_of(w.tiles, w.clips, kSide, z)));
}
/// A number of the chunk's line, which may be one of the two chunks behind all others.
template <class T>
__device__ __forceinline__ std::uint32_t number_of_line(const BandWork& w, int head, int chunk, int line, int channel) {
  const int beyond = chunk - w.span.chunks();
  if (channel >= w.rows.width || (beyond >= 0 && line > 1)) return 0;
  const int z = beyond < 0    ? kChunkLines * (w.span.low + chunk) + line
                : beyond == 0 ? kChunkLines * w.span.low
                              : kChunkLines * w.span.high - 1;
  return reinterpret_cast<const std::uint16_t*>(w.rows.row(0, row_of_line<T::kSide>(w, z), head))[channel];
}
template <class T>
__device__ __forceinline__ std::uint32_t pair_of_line(const BandWork& w, int head, int chunk, int line, int channel) {
  return number_of_line<T>(w, head, chunk, line, channel) | number_of_line<T>(w, head, chunk, line, channel + 1) << 16;
}
/// Of `lines`: 16 bytes.
template <class T>
__device__ __forceinline__ void lay_out_lines(const BandWork& w, int x, int head) {
  constexpr int kVectors = T::kWidth / 8;
  const int chunks = w.span.chunks(), chunk = x / (kChunkLines * kVectors), line = x / kVectors % kChunkLines, channel = x % kVectors * 8;
  if (head == 0 && x < w.span.lines()) {
    const int behind = x - (w.span.lines() - 2);
    w.line_rows[x] = row_of_line<T::kSide>(w, behind < 0    ? kChunkLines * w.span.low + x
                                              : behind == 0 ? kChunkLines * w.span.low
                                                            : kChunkLines * w.span.high - 1);
  }
  if (chunk >= chunks + 2) return;
  w.lines[std::int64_t{head} * (chunks + 2) * (kChunkLines * kVectors) + x] = {
      pair_of_line<T>(w, head, chunk, line, channel), pair_of_line<T>(w, head, chunk, line, channel + 2),
      pair_of_line<T>(w, head, chunk, line, channel + 4), pair_of_line<T>(w, head, chunk, line, channel + 6)};
}

// ---- Their gradient ----

template <class T>
struct LinesShared {
  static constexpr int kGroups = 2, kStages = 2, kPanels = T::kWidth / 64;
  alignas(1024) std::uint16_t features[kStages][kPanels][64][64];  // those that are multiplied, and the next ones
  ScoreRing<4 * kGroups, 2> scores;
};

/// A block's part of a head's features; `block`: which lines it has, 128 of them.
struct LinesPlace {
  int batch;
  int head;
  int block;
  int part;
};

template <class T>
struct BandLines {
  using Element = typename T::Element;
  using Shared = LinesShared<T>;
  using Product64 = Product<Element, T::kWidth>;  // of 64 lines
  static constexpr int kGroups = Shared::kGroups, kThreads = 128 * kGroups, kWarps = 4 * kGroups;
  static constexpr int kChunks = 64 / kChunkLines;  // of features, that come together
  static_assert(kChunks == ScoreRing<kWarps, 2>::kAhead);
  Shared& shared;
  const BandWork& w;
  const LinesPlace& at;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int line;  // the warp's chunk, by number of those that there are
  const int end;   // behind all lines two warps have what lies beyond: 0, 1
  ScoreWalk<kWarps, 2> scores;
  float sum[T::kWidth / 2] = {};

  PHASOR_HD static int blocks_of_lines(const LineSpan& span) { return (2 * span.units() + 2 + kWarps - 1) / kWarps; }
  __device__ __forceinline__ BandLines(Shared& of, const BandWork& parameter, const LinesPlace& place)
      : shared(of),
        w(parameter),
        at(place),
        line(place.block * kWarps + static_cast<int>(threadIdx.x) / 32),
        end(line - 2 * parameter.span.units()),
        scores(of.scores) {}

  __device__ __forceinline__ int feature_chunks() const { return (w.feature_count(T::kSide) + kChunkLines - 1) / kChunkLines; }
  /// Chunks of features that meet some line of the block.
  __device__ __forceinline__ Span features_met() const {
    if ((at.block + 1) * kWarps > 2 * w.span.units()) return {0, feature_chunks()};
    const KeyTiles& t = w.tiles;
    const int others = (T::kSide == kOfQueries ? t.blocks() * kBlockKeys : t.rows()) / kChunkLines;
    const int first = w.span.low + at.block * kWarps;
    return {max(0, -first - kWarps), min(feature_chunks(), others - first)};
  }

  // ---- What comes to shared memory ----

  /// 64 features; nothing where there are none.
  __device__ __forceinline__ void bring(int chunk, int stage) const {
    constexpr int kVectors = T::kWidth / 8, kTogether = kThreads / kVectors;
    static_assert(kTogether % 8 == 0);  // so the swizzle is that of the first row
    const int head = T::kSide == kOfQueries ? at.head : at.head / w.tiles.heads_of_key;
    const int first = threadIdx.x / kVectors, vector = threadIdx.x % kVectors, row = kChunkLines * chunk + first;
    const std::uint32_t to = shared_address(shared.features[stage][vector / 8][first]) + 16 * (vector % 8 ^ first % 8);
    if (kChunkLines * chunk < w.feature_count(T::kSide)) {
#pragma unroll
      for (int n = 0; n < 64; n += kTogether) {
        const bool is_there = row + n < w.feature_count(T::kSide) && 8 * vector < w.features.width;
        const unsigned char* const from = w.features.row(at.batch, is_there ? row + n : 0, head) + (is_there ? 16 * vector : 0);
        attention::mma::copy_in(to + 128 * n, from, is_there);
      }
    }
    attention::mma::copies_commit();
  }
  /// Scores of 64 features with what meets them by this warp's lines, a step for each 16.
  struct Places {
    ScoreBlocks<T> blocks;
    Span others;
    int chunk;  // the features' first
  };
  __device__ __forceinline__ Places places_of(int chunk) const {
    const bool any = line < w.span.chunks() && kChunkLines * chunk < w.feature_count(T::kSide);
    return {{}, any ? near_chunks(w.tiles, w.near, T::kSide, chunk) : Span{0, 0}, chunk};
  }
  __device__ __forceinline__ void ask(Places& of, int n) {
    const int other = of.chunk + n + w.span.low + line;
    const uint4* from[2];
#pragma unroll
    for (int x = 0; x < 2; ++x) {
      const bool is_near = other + x >= of.others.first && other + x < of.others.end;
      from[x] = is_near ? of.blocks.at_other(w, {at.batch, at.head, of.chunk}, of.chunk, other + x) + n * ScoreBlocks<T>::kNext : nullptr;
    }
    scores.ask(w, from);
  }

  // ---- Lines ----

  /// The left operand of a product with 16 features: the gradients of their scores by line.
  __device__ __forceinline__ void take(std::uint32_t (&to)[4]) {
    uint4 given[2];
    scores.take(given);
    Words low, high, lines;
    to_words<T>(given[0], low), to_words<T>(given[1], high);
    to_lines(low, high, lines, lane);
    to[0] = lines[0][0], to[1] = lines[1][0], to[2] = lines[0][1], to[3] = lines[1][1];
  }
  /// Sums beyond an end: in two lines, each number in two.
  __device__ __forceinline__ void take_end(std::uint32_t (&to)[4], int chunk) const {
    if (end >= 2 || kChunkLines * chunk >= w.feature_count(T::kSide)) return;
    const float* const from = w.beyond + w.feature_number(T::kSide, {at.batch, at.head, chunk}, kChunkLines * chunk, end) + 2 * (lane % 4);
#pragma unroll
    for (int g = 0; g < 2; ++g) {
      const float2 beyond = *reinterpret_cast<const float2*>(from + 8 * g);
      const std::uint32_t even = in_two<Element>(beyond.x), odd = in_two<Element>(beyond.y);
      to[2 * g] = lane < 4 ? low_halves(even, odd) : lane < 8 ? high_halves(even, odd) : 0;
    }
  }
  __device__ __forceinline__ void multiply(std::uint32_t (&lines)[kChunks][4], int stage) {
    const std::uint64_t features = matrix(shared.features[stage], int(sizeof(shared.features[stage][0])));
    pin(sum);
    products_begin();
#pragma unroll
    for (int n = 0; n < kChunks; ++n) Product64::registers(sum, lines[n], further(features, n * kChunkLines * 128));
    products_commit();
    products_wait<0>();
    pin(sum);
#pragma unroll
    for (int n = 0; n < kChunks; ++n) pin(lines[n]);
  }
  __device__ __forceinline__ float* part() const {
    const std::int64_t number = (std::int64_t{at.batch} * w.tiles.heads + at.head) * w.parts + at.part;
    return w.parts_at + number * w.span.lines() * w.rows.width;
  }
  __device__ __forceinline__ void store() const {
    float* const to = part() + std::int64_t{kChunkLines * line + lane / 4} * w.rows.width + 2 * (lane % 4);
#pragma unroll
    for (int x = 0; x < T::kWidth / 8; ++x) {
      if (8 * x >= w.rows.width) break;
      *reinterpret_cast<float2*>(to + 8 * x) = {sum[4 * x], sum[4 * x + 1]};
      *reinterpret_cast<float2*>(to + 8 * w.rows.width + 8 * x) = {sum[4 * x + 2], sum[4 * x + 3]};
    }
  }
  __device__ __forceinline__ void store_end() const {
    float* const to = part() + std::int64_t{w.span.lines() - 2 + end} * w.rows.width;
#pragma unroll
    for (int x = 0; x < T::kWidth / 8; ++x) {
      const float a = sum[4 * x] + __shfl_xor_sync(~0u, sum[4 * x], 4), b = sum[4 * x + 1] + __shfl_xor_sync(~0u, sum[4 * x + 1], 4);
      const int channel = 8 * x + 2 * lane;
      if (lane < 4 && channel < w.rows.width) *reinterpret_cast<float2*>(to + channel) = {a, b};
    }
  }
  __device__ __forceinline__ void run() {
    const Span met = features_met();
    const int on = w.parts * kChunks;
    int chunk = at.part * kChunks;  // 64 features of every so many
    if (chunk + kChunks <= met.first) chunk += (met.first - chunk - kChunks) / on * on + on;
    bring(chunk, 0);
    Places next = places_of(chunk);
#pragma unroll
    for (int n = 0; n < kChunks; ++n) ask(next, n);
    int stage = 0;
#pragma unroll 1
    for (; chunk < met.end; chunk += on, stage ^= 1) {
      attention::mma::copies_wait<kChunks>();  // behind features are the scores that meet them
      fence_async();
      __syncthreads();  // nobody reads the others any more
      bring(chunk + on, stage ^ 1);
      next = places_of(chunk + on);
      std::uint32_t lines[kChunks][4] = {};
#pragma unroll
      for (int n = 0; n < kChunks; ++n) {
        if (end >= 0) {
          take_end(lines[n], chunk + n);
        } else {
          take(lines[n]);
        }
        ask(next, n);
      }
      multiply(lines, stage);
    }
    if (end < 0) {
      store();
    } else if (end < 2) {
      store_end();
    }
  }
};

// ---- Added up ----

/// Number x of the lines of one of the table's heads: of all parts, heads and batch rows into the first, in order.
__device__ __forceinline__ void add_parts(const BandWork& w, int x, int head) {
  const KeyTiles& t = w.tiles;
  const std::int64_t size = std::int64_t{w.span.lines()} * w.rows.width;
  if (x >= size) return;
  const int first = w.clips.by_head ? head : 0, end = w.clips.by_head ? first + 1 : t.heads;
  float sum = 0;
  for (int batch = 0; batch < t.batch; ++batch) {
    const float* const from = w.parts_at + (std::int64_t{batch} * t.heads * w.parts) * size + x;
    for (int part = first * w.parts; part < end * w.parts; ++part) sum += from[part * size];
  }
  w.parts_at[std::int64_t{first} * w.parts * size + x] = sum;
}
/// Number x of the gradient of one of the table's heads: of all lines of a row, which follow each other, since rows only rise or fall; and
/// of those behind all others.
__device__ __forceinline__ void add_lines(const BandWork& w, int x, int head) {
  const int width = w.rows.width, row = x / width, channel = x % width, lines = w.span.lines();
  if (row >= w.row_count) return;
  const float* const from = w.parts_at + std::int64_t{head} * w.parts * lines * width + channel;
  const int* const rows = w.line_rows;
  const bool rises = rows[0] <= rows[lines - 3];
  int low = 0, high = lines - 2;
  while (low < high) {
    const int middle = (low + high) / 2;
    if (rises ? rows[middle] < row : rows[middle] > row) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  float sum = 0;
  for (; low < lines - 2 && rows[low] == row; ++low) sum += from[low * width];
  for (int line = lines - 2; line < lines; ++line) {
    if (rows[line] == row) sum += from[line * width];
  }
  float& to = w.gradient[std::int64_t{row} * w.gradient_pitch + head * width + channel];
  to = sum * w.table_scale + (w.adds_to_gradient ? to : 0);
}

}  // namespace phasor::cuda::hopper
