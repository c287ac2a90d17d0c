// SPDX-License-Identifier: Apache-2.0
// A table by distance laid out by lines, before a backward; after it, the gradient of the table: gradients of scores by line across times
// features. A warp has 32 lines and walks along the features of a head; what it sums is added up by row at the end.
#pragma once

#include "cuda/attention/hopper/backward/band/body.cuh"

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
  alignas(16) std::uint16_t features[kFeatures][T::kWidth + 8];
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
  float sum[2][2 * T::kSteps][4] = {};  // of 16 lines and eight channels

  __device__ __forceinline__ BandLines(LinesShared<T>& of, const BandWork& parameter, const LinesPlace& place)
      : shared(of), w(parameter), at(place), unit(place.unit + warp) {}

  __device__ __forceinline__ void bring(int first) {
    constexpr int kVectors = T::kWidth / 8;
    const int head = T::kSide == kOfQueries ? at.head : at.head / w.tiles.heads_of_key;
    for (int x = threadIdx.x; x < LinesShared<T>::kFeatures * kVectors; x += T::kThreads) {
      const int row = first + x / kVectors, channel = x % kVectors * 8;
      const unsigned char* const from = w.features.row(at.batch, row, head);
      *reinterpret_cast<uint4*>(&shared.features[x / kVectors][channel]) =
          vector_at(from, row < w.feature_count(T::kSide), channel, w.features.width);
    }
  }
  /// Lines of 16 features, of two chunks, by their features, of which shared memory has these from `row` on.
  __device__ __forceinline__ void multiply(const std::uint32_t (&first)[4], const std::uint32_t (&second)[4], int row) {
#pragma unroll
    for (int x = 0; x < T::kSteps; ++x) {
      std::uint32_t features[4];
      load_blocks_across(features, shared_address(&shared.features[row + lane % 16][16 * x + lane / 16 * 8]));
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
  /// Scores of 16 features that meet this warp's lines: asked for while those before are multiplied.
  struct Scores {
    uint4 of[3];
    bool any;
  };
  __device__ __forceinline__ void ask(Scores& to, int chunk) const {
    const Span others = near_chunks(w.tiles, w.near, T::kSide, chunk);
    const int other = chunk + w.span.low + 2 * unit;
    to.any = unit < w.span.units() && kChunkLines * chunk < w.feature_count(T::kSide) && other + 2 >= others.first && other < others.end;
    if (!to.any) return;
    ScoreBlocks<T> blocks;
#pragma unroll
    for (int n = 0; n < 3; ++n) {
      const bool is_near = other + n >= others.first && other + n < others.end;
      to.of[n] = is_near ? *blocks.at_other(w, {at.batch, at.head, chunk}, chunk, other + n) : no_scores();
    }
  }
  __device__ __forceinline__ void add_lines(const Scores& scores, int row) {
    const int line_chunk = w.span.low + 2 * unit;
    Words words[3];
#pragma unroll
    for (int n = 0; n < 3; ++n) to_words<T>(scores.of[n], words[n]);
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
    multiply(blocks[0], blocks[1], row);
  }
  /// Sums beyond an end: in two lines, each number in two.
  __device__ __forceinline__ void add_end(int chunk, int row) {
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
    multiply(blocks, none, row);
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
  __device__ __forceinline__ void run() {
    constexpr int kFeatures = LinesShared<T>::kFeatures;
    const int units = w.span.units();
    Scores next;
    ask(next, at.part * kFeatures / kChunkLines);
    for (int first = at.part * kFeatures; first < w.feature_count(T::kSide); first += w.parts * kFeatures) {
      __syncthreads();
      bring(first);
      __syncthreads();
#pragma unroll 1
      for (int row = 0; row < kFeatures && unit < units + 2; row += kChunkLines) {
        const int chunk = (first + row) / kChunkLines;
        const Scores now = next;
        ask(next, row + kChunkLines < kFeatures ? chunk + 1 : (first + w.parts * kFeatures) / kChunkLines);
        if (now.any) add_lines(now, row);
        if (unit >= units && kChunkLines * chunk < w.feature_count(T::kSide)) add_end(chunk, row);
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
