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
  static constexpr int kFeatures = 64;
  alignas(16) std::uint16_t features[2][kFeatures][T::kWidth + 8];  // those that are multiplied, and the next ones
  ScoreRing<T, 3> scores;
};

/// A block's part of a head's features; `unit`: which lines its first warp has.
struct LinesPlace {
  int batch;
  int head;
  int unit;
  int part;
};

template <class T>
struct BandLines {
  using Element = typename T::Element;
  LinesShared<T>& shared;
  const BandWork& w;
  const LinesPlace& at;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int unit;
  ScoreWalk<T, 3> scores;
  unsigned wanted = 0;                  // steps that were asked for, the last one in the lowest bit: whether it has scores
  float sum[2][2 * T::kSteps][4] = {};  // of 16 lines and eight channels

  __device__ __forceinline__ BandLines(LinesShared<T>& of, const BandWork& parameter, const LinesPlace& place)
      : shared(of), w(parameter), at(place), unit(place.unit + warp), scores(of.scores) {}

  /// From the first of 64 features on, unless there are none.
  __device__ __forceinline__ void bring(int first, int stage) {
    constexpr int kVectors = T::kWidth / 8;
    const int head = T::kSide == kOfQueries ? at.head : at.head / w.tiles.heads_of_key;
    for (int x = threadIdx.x; x < LinesShared<T>::kFeatures * kVectors && first < w.feature_count(T::kSide); x += T::kThreads) {
      const int row = first + x / kVectors, channel = x % kVectors * 8;
      const bool is_there = row < w.feature_count(T::kSide) && channel < w.features.width;
      const unsigned char* const from = w.features.row(at.batch, is_there ? row : 0, head) + (is_there ? 2 * channel : 0);
      attention::mma::copy_in(shared_address(&shared.features[stage][x / kVectors][channel]), from, is_there);
    }
    attention::mma::copies_commit();
  }
  using Features = std::uint16_t[T::kWidth + 8];
  /// Lines of 16 features, of two chunks, by these features.
  __device__ __forceinline__ void multiply(const std::uint32_t (&first)[4], const std::uint32_t (&second)[4], const Features* of) {
#pragma unroll
    for (int x = 0; x < T::kSteps; ++x) {
      std::uint32_t features[4];
      load_blocks_across(features, shared_address(&of[lane % 16][16 * x + lane / 16 * 8]));
      multiply_blocks<Element>(sum[0][2 * x], first, features[0], features[1]);
      multiply_blocks<Element>(sum[1][2 * x], second, features[0], features[1]);
      multiply_blocks<Element>(sum[0][2 * x + 1], first, features[2], features[3]);
      multiply_blocks<Element>(sum[1][2 * x + 1], second, features[2], features[3]);
    }
  }
  /// The left operand of a product.
  __device__ __forceinline__ static void as_operand(const Words& lines, std::uint32_t (&to)[4]) {
    to[0] = lines[0][0], to[1] = lines[1][0], to[2] = lines[0][1], to[3] = lines[1][1];
  }
  /// Scores of 16 features that meet this warp's lines: asked for while those of some steps before are multiplied.
  __device__ __forceinline__ void ask(int chunk) {
    const Span others = near_chunks(w.tiles, w.near, T::kSide, chunk);
    const int other = chunk + w.span.low + 2 * unit;
    const bool any =
        unit < w.span.units() && kChunkLines * chunk < w.feature_count(T::kSide) && other + 2 >= others.first && other < others.end;
    const uint4* from[3] = {};
    ScoreBlocks<T> blocks;
#pragma unroll
    for (int n = 0; n < 3 && any; ++n) {
      if (other + n >= others.first && other + n < others.end) from[n] = blocks.at_other(w, {at.batch, at.head, chunk}, chunk, other + n);
    }
    scores.ask(w, from, any);
    wanted = wanted << 1 | (any ? 1 : 0);
  }
  __device__ __forceinline__ void add_lines(const uint4 (&given)[3], const Features* of) {
    const int line_chunk = w.span.low + 2 * unit;
    Words words[3];
#pragma unroll
    for (int n = 0; n < 3; ++n) to_words<T>(given[n], words[n]);
    std::uint32_t blocks[2][4];
#pragma unroll
    for (int n = 0; n < 2; ++n) {
      Words lines;
      to_lines(words[n], words[n + 1], lines, lane);
      as_operand(lines, blocks[n]);
    }
    if (line_chunk + 1 >= w.span.high) {  // what lies beyond is the last line's
#pragma unroll
      for (int x = 0; x < 4; ++x) blocks[1][x] = 0;
    }
    multiply(blocks[0], blocks[1], of);
  }
  /// Sums beyond an end: in two lines, each number in two.
  __device__ __forceinline__ void add_end(int chunk, const Features* of) {
    const float* const from =
        w.beyond + w.feature_number(T::kSide, {at.batch, at.head, chunk}, kChunkLines * chunk, unit - w.span.units()) + 2 * (lane % 4);
    std::uint32_t blocks[4] = {0, 0, 0, 0};
    const std::uint32_t none[4] = {0, 0, 0, 0};
#pragma unroll
    for (int g = 0; g < 2; ++g) {
      const float2 beyond = *reinterpret_cast<const float2*>(from + 8 * g);
      const std::uint32_t even = in_two<Element>(beyond.x), odd = in_two<Element>(beyond.y);
      blocks[2 * g] = lane < 4 ? low_halves(even, odd) : lane < 8 ? high_halves(even, odd) : 0;
    }
    multiply(blocks, none, of);
  }
  __device__ __forceinline__ float* part() const {
    const std::int64_t number = (std::int64_t{at.batch} * w.tiles.heads + at.head) * w.parts + at.part;
    return w.parts_at + number * w.span.lines() * w.rows.width;
  }
  __device__ __forceinline__ void store() const {
    float* const to = part() + std::int64_t{2 * kChunkLines * unit} * w.rows.width;
#pragma unroll
    for (int n = 0; n < 2; ++n) {
#pragma unroll
      for (int x = 0; x < 4 * T::kSteps; ++x) {
        const int line = kChunkLines * n + lane / 4 + 8 * (x % 2), channel = 8 * (x / 2) + 2 * (lane % 4);
        if (channel < w.rows.width) {
          *reinterpret_cast<float2*>(to + line * w.rows.width + channel) = {sum[n][x / 2][x % 2 * 2], sum[n][x / 2][x % 2 * 2 + 1]};
        }
      }
    }
  }
  __device__ __forceinline__ void store_end() const {
    float* const to = part() + std::int64_t{w.span.lines() - 2 + unit - w.span.units()} * w.rows.width;
#pragma unroll
    for (int x = 0; x < 2 * T::kSteps; ++x) {
      const float a = sum[0][x][0] + __shfl_xor_sync(~0u, sum[0][x][0], 4), b = sum[0][x][1] + __shfl_xor_sync(~0u, sum[0][x][1], 4);
      const int channel = 8 * x + 2 * lane;
      if (lane < 4 && channel < w.rows.width) *reinterpret_cast<float2*>(to + channel) = {a, b};
    }
  }
  /// With 16 features; asks for scores of `ahead` before.
  __device__ __forceinline__ void step(int chunk, int ahead, const Features* of) {
    const int units = w.span.units();
    uint4 given[3];
    scores.take(given);
    const bool any = (wanted >> (scores.kAhead - 1) & 1) != 0;
    ask(ahead);
    if (any) add_lines(given, of);
    if (unit >= units && unit < units + 2 && kChunkLines * chunk < w.feature_count(T::kSide)) add_end(chunk, of);
  }
  __device__ __forceinline__ void run() {
    constexpr int kFeatures = LinesShared<T>::kFeatures, kChunks = kFeatures / kChunkLines;
    static_assert(kChunks == ScoreWalk<T, 3>::kAhead);
    const int units = w.span.units(), begin = at.part * kFeatures, on = w.parts * kFeatures;
    bring(begin, 0);
    for (int c = 0; c < kChunks; ++c) ask(begin / kChunkLines + c);
    int stage = 0;
    for (int first = begin; first < w.feature_count(T::kSide); first += on, stage ^= 1) {
      attention::mma::copies_wait<kChunks>();  // behind features are the scores that meet them
      __syncthreads();                         // nobody reads the others any more
      bring(first + on, stage ^ 1);
#pragma unroll 1
      for (int c = 0; c < kChunks; ++c) {
        step(first / kChunkLines + c, (first + on) / kChunkLines + c, &shared.features[stage][kChunkLines * c]);
      }
    }
    if (unit < units) {
      store();
    } else if (unit < units + 2) {
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
