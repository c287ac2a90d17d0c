// SPDX-License-Identifier: Apache-2.0
// Strips: products of 64 queries, and of the keys near to them, with the rows of their distances, put where a warpgroup has the scores.
//
// Keys come 64 at a time. By their numbers x = key - query + 64, from 1 to 127, so many keys and queries have two batches of 64 distances
// of which the second is new. Queries meet the new one, and their products with the one before are still there. Keys meet
// both: 16 of them have 79 distances to 64 queries. Half of the warps multiply queries, half keys, 32 of them by mma.sync. Then every score
// finds its products by a shift.
#pragma once

#include "cuda/attention/hopper/strip/body.cuh"

namespace phasor::cuda::hopper {

/// Of one block of threads, for 64 queries.
template <class T>
struct StripMaker {
  using Shared = typename T::Shared;
  static constexpr int kSlices = T::kWidth / 16;
  Shared& shared;
  const StripWork& w;
  const Work at;
  const int group;
  const int row = at.row + kStripQueries * group;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  std::uint32_t left[2][kSlices][4];  // 32 rows as the left operand: queries for all of the time, or keys of a step
  int begin;                          // the first key
  int columns;                        // of 16 keys
  uint4* to;

  __device__ __forceinline__ StripMaker(Shared& memory, const StripWork& work, const Work& block, int number)
      : shared(memory), w(work), at(block), group(number) {}

  __device__ __forceinline__ bool multiplies_queries() const { return warp < T::kWarps / 2; }
  /// Which 32 queries or keys this warp multiplies, and which half of the distances.
  __device__ __forceinline__ int slab() const { return warp % 2; }
  __device__ __forceinline__ int half() const { return warp / 2 % 2; }
  /// Key - query of a step's first key and the first query, positions counted.
  __device__ __forceinline__ int distance(int step) const { return begin + step * T::kStep - row - w.tiles.offset(); }
  __device__ __forceinline__ int far_side(int step) const {
    if (distance(step) + T::kStep - 1 <= -w.strips.clips.left) return 0;
    return distance(step) - (kStripQueries - 1) >= w.strips.clips.right ? 1 : -1;
  }

  // ---- What comes to shared memory ----

  /// Rows of 64 in a tile, of which this thread brings one channel's vector of every so many. row_of(n): the address of row n, null where
  /// there is none.
  template <class Row>
  __device__ __forceinline__ void bring_rows(std::uint16_t (*lines)[T::kPitch], int width, const Row& row_of) const {
    constexpr int kVectors = T::kWidth / 8, kTogether = T::kThreads / kVectors;
    const int first = threadIdx.x / kVectors, channel = threadIdx.x % kVectors * 8;
    const std::uint32_t at_line = shared_address(&lines[first][channel]);
#pragma unroll
    for (int n = 0; n < T::kStep; n += kTogether) {
      const unsigned char* const from = row_of(first + n);
      const bool is_there = from != nullptr && channel < width;
      attention::mma::copy_in(at_line + 2 * n * T::kPitch, is_there ? from + 2 * channel : w.keys.data, is_there);
    }
  }
  __device__ __forceinline__ void bring_keys(int step) const {
    const int first = begin + step * T::kStep;
    const unsigned char* const rows = w.keys.row(at.batch, first, at.head / w.tiles.heads_of_key);
    bring_rows(shared.keys, w.keys.width, [&](int n) { return first + n < w.tiles.keys ? rows + n * w.keys.strides[1] : nullptr; });
  }
  /// Batch n has the distances that step n - 1 has as its new ones.
  __device__ __forceinline__ void bring_batch(int n) const {
    const Clips& c = w.strips.clips;
    const int first = distance(n) - T::kStep;
    const auto bring = [&](std::uint16_t(*lines)[T::kPitch], const InputRows& table) {
      if (table.data == nullptr) return;
      const unsigned char* const rows = table.row(0, c.left, at.head);
      const int stride = static_cast<int>(table.strides[1]);
      bring_rows(lines, table.width, [&](int x) { return rows + min(max(first + x, -c.left), c.right) * stride; });
    };
    bring(shared.of_queries, w.of_queries);
    bring(shared.of_keys + (n & 1) * T::kStep, w.of_keys);
  }
  __device__ __forceinline__ void commit() const { attention::mma::copies_commit(); }
  __device__ __forceinline__ void arrive() const {
    attention::mma::copies_wait<0>();
    __syncthreads();
  }

  // ---- Products ----

  __device__ __forceinline__ void read_queries() {
#pragma unroll
    for (int x = 0; x < 4; ++x) {
      const int query = row + 32 * slab() + 8 * x + lane / 4;
      const unsigned char* const from = w.queries.row(at.batch, query, at.head) + 4 * (lane % 4);
#pragma unroll
      for (int c = 0; c < 2 * kSlices; ++c) {
        const bool is_there = query < w.tiles.queries && 8 * c < w.queries.width;
        left[x / 2][c / 2][c % 2 * 2 + x % 2] = is_there ? *reinterpret_cast<const std::uint32_t*>(from + 16 * c) : 0;
      }
    }
  }
  __device__ __forceinline__ void read_keys() {
#pragma unroll
    for (int s = 0; s < 2; ++s) {
#pragma unroll
      for (int c = 0; c < kSlices; ++c) {
        load_blocks(left[s][c], shared_address(&shared.keys[32 * slab() + 16 * s + lane % 16][16 * c + lane / 16 * 8]));
      }
    }
  }
  /// Of 32 of them with twice eight rows, side by side, so that there are products enough on their way; 16 of them may be left out. put(s,
  /// b, r, pair): of the s-th 16 with the b-th eight, row r of the thread's two.
  template <bool kAllOfFirst, bool kAllOfSecond, class Put>
  __device__ __forceinline__ void multiply(const std::uint16_t (*first)[T::kPitch], const std::uint16_t (*second)[T::kPitch], float factor,
                                           const Put& put) {
    // The second 16 do not meet the first rows, or the first 16 not the second ones.
    constexpr bool kMeet[2][2] = {{true, kAllOfSecond}, {kAllOfFirst, true}};
    const std::uint32_t lines[2] = {shared_address(&first[lane % 8][lane / 8 * 8]), shared_address(&second[lane % 8][lane / 8 * 8])};
    float product[2][2][4] = {};
#pragma unroll
    for (int c = 0; c < kSlices / 2; ++c) {
      std::uint32_t rows[2][4];
      load_blocks(rows[0], lines[0] + 64 * c), load_blocks(rows[1], lines[1] + 64 * c);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
#pragma unroll
        for (int n = 0; n < 4; ++n) {
          if (!kMeet[n / 2][n % 2]) continue;
          multiply_blocks<typename T::Element>(product[n / 2][n % 2], left[n / 2][2 * c + half], rows[n % 2][2 * half],
                                               rows[n % 2][2 * half + 1]);
        }
      }
    }
#pragma unroll
    for (int n = 0; n < 4; ++n) {
      if (!kMeet[n / 2][n % 2]) continue;
      const float* const of = product[n / 2][n % 2];
#pragma unroll
      for (int r = 0; r < 2; ++r) put(n / 2, n % 2, r, halves_of(of[2 * r] * factor, of[2 * r + 1] * factor));
    }
  }
  __device__ __forceinline__ static void store(std::uint16_t* place, std::uint32_t pair) {
    *reinterpret_cast<std::uint32_t*>(place) = pair;
  }
  /// With the rows of a batch. Those of even number are there twice, so that each two batches that follow each other do so in memory.
  __device__ __forceinline__ void multiply_queries(int batch) {
    std::uint16_t* const to = &shared.query_products[32 * slab() + lane / 4][(batch & 1) * T::kStep + 32 * half() + 2 * (lane % 4)];
#pragma unroll 1
    for (int n = 0; n < 4; n += 2) {
      const auto* const lines = shared.of_queries + 8 * (4 * half() + n);
      multiply<true, true>(lines, lines + 8, w.query_factor, [&](int s, int b, int r, std::uint32_t pair) {
        std::uint16_t* const place = to + (16 * s + 8 * r) * T::kQueryPitch + 8 * (n + b);
        store(place, pair);
        if ((batch & 1) == 0) store(place + 2 * T::kStep, pair);
      });
    }
  }
  /// With the rows of a step's two batches that they have distances of: of 16 keys the 80 from as many on.
  __device__ __forceinline__ void multiply_keys(int step) {
    static_assert(T::kKeyColumns == 80);
    const auto lines = [&](int n) {
      return shared.of_keys + ((32 * slab() + 8 * (half() + 2 * n) + (step & 1) * T::kStep) & (2 * T::kStep - 1));
    };
    std::uint16_t* const to = &shared.key_products[32 * slab() + lane / 4][8 * half() + 2 * (lane % 4)];
    const auto put_from = [&](int n) {
      return [=](int s, int b, int r, std::uint32_t pair) { store(to + (16 * s + 8 * r) * T::kKeyPitch + 16 * (n + b) - 16 * s, pair); };
    };
    multiply<false, true>(lines(0), lines(1), w.key_factor, put_from(0));
    multiply<true, true>(lines(2), lines(3), w.key_factor, put_from(2));
    multiply<true, false>(lines(4), lines(5), w.key_factor, put_from(4));
  }
  __device__ __forceinline__ void multiply_step(int step) {
    if (multiplies_queries()) {
      if (w.of_queries.data != nullptr) multiply_queries(step + 1);
    } else if (w.of_keys.data != nullptr) {
      read_keys();
      multiply_keys(step);
    }
  }

  // ---- Strips ----

  static __device__ __forceinline__ float half_at(std::uint16_t bits) { return unpack<__half>(bits).x; }
  /// Scores of a step that is near, whose places are the thread's plus constants.
  template <bool kOfQueries, bool kOfKeys>
  __device__ __forceinline__ void write_near(int step) const {
    write(step, [&](int query, int key) {
      const int x = key - query + T::kStep;
      const std::uint16_t* const of_query = &shared.query_products[query][x + (step & 1) * T::kStep];
      const std::uint16_t* const of_key = &shared.key_products[key][x - (key & ~15)];
      return [=](int i, int j) {
        const float a = kOfQueries ? half_at(of_query[i * T::kQueryPitch + j - i]) : 0;
        const float b = kOfKeys ? half_at(of_key[j * T::kKeyPitch + j - i]) : 0;
        return a + b;
      };
    });
  }
  __device__ __forceinline__ void write_near(int step) const {
    if (w.of_keys.data == nullptr) return write_near<true, false>(step);
    return w.of_queries.data == nullptr ? write_near<false, true>(step) : write_near<true, true>(step);
  }
  /// Of a step beyond an end.
  __device__ __forceinline__ float end_at(int step, int side, int query, int key) const {
    const std::int64_t line = (std::int64_t{at.batch} * w.tiles.heads + at.head) * 2 + side;
    const float of_query = w.of_queries.data == nullptr ? 0 : w.strips.rows[line * w.strips.rows_length + row + query];
    const float of_key = w.of_keys.data == nullptr ? 0 : w.strips.columns[line * w.strips.columns_length + begin + step * T::kStep + key];
    return of_query + of_key;
  }
  __device__ __forceinline__ void write_far(int step, int side) const {
    write(step, [&](int query, int key) { return [=, this](int i, int j) { return end_at(step, side, query + i, key + j); }; });
  }
  /// All that threads of the forward read of a step: value(query, key) is a function of what is further on, by 8 queries, and 8 keys and 1.
  template <class Value>
  __device__ __forceinline__ void write(int step, const Value& values) const {
#pragma unroll
    for (int x = threadIdx.x; x < T::kStep / 16 * 128; x += T::kThreads) {
      const int column = x / 128, thread = x % 128;
      if (column + step * (T::kStep / 16) >= columns) continue;
      const int query = thread / 32 * 16 + thread % 32 / 4, key = 16 * column + 2 * (thread % 4);
      const auto value = values(query, key);
      const auto pair = [&](int i, int j) { return halves_of(value(i, j), value(i, j + 1)); };
      to[step * (T::kStep / 16 * 128) + x] = {pair(0, 0), pair(8, 0), pair(0, 8), pair(8, 8)};
    }
  }
  __device__ __forceinline__ void run() {
    if (row >= w.tiles.queries) return;
    const Clips& clips = w.strips.clips;
    const TileSpan seen = tiles_of(w.tiles, at.row);
    const int first = max(first_near_tile(w.tiles, clips, row), seen.first), end = min(end_near_tile(w.tiles, clips, row), seen.end);
    if (first >= end) return;
    begin = first * w.tiles.tile_keys;
    columns = (end - first) * (w.tiles.tile_keys / 16);
    to = w.strips.values + strip_place(w.tiles, w.strips, at.number, group, row, first);
    const int steps = (16 * columns + T::kStep - 1) / T::kStep;
    int near = 0, last = steps;  // steps that are near
    for (; near < steps && far_side(near) == 0; ++near) write_far(near, 0);
    for (; last > near && far_side(last - 1) == 1; --last) write_far(last - 1, 1);
    if (near >= last) return;
    if (multiplies_queries()) read_queries();
    bring_batch(near), commit();
    arrive();
    if (multiplies_queries() && w.of_queries.data != nullptr) multiply_queries(near);
    __syncthreads();
    bring_keys(near), bring_batch(near + 1), commit();
    for (int step = near; step < last; ++step) {
      arrive();
      multiply_step(step);
      __syncthreads();
      if (step + 1 < last) bring_keys(step + 1), bring_batch(step + 2);
      commit();
      write_near(step);
    }
  }
};

/// Block n of a launch: 64 queries of one of its blocks of queries.
template <class T>
__device__ __forceinline__ void make_strip(typename T::Shared& shared, const StripWork& w, int n) {
  const int groups = w.tiles.block_queries / kStripQueries;
  StripMaker<T>(shared, w, work_at(w.tiles, w.strips.first + n / groups), n % groups).run();
}

// ---- Ends ----

/// Products of all rows of a tensor with the rows of a table beyond its ends.
struct EndWork {
  InputRows rows;
  InputRows table;
  int heads_of_row;  // that share a head of rows
  int heads;
  int tokens;
  int last;    // row of the table
  int length;  // of a line; behind the tokens are zeros
  int lanes;   // threads of a row, a power of two
  float factor;
  float* to;  // (B, H, 2, length)
};
/// Eight numbers of 16 bits.
template <class Element>
__device__ __forceinline__ void widen_eight(float (&x)[8], const unsigned char* from, bool is_there) {
  const uint4 bits = is_there ? *reinterpret_cast<const uint4*>(from) : uint4{0, 0, 0, 0};
  const std::uint32_t words[4] = {bits.x, bits.y, bits.z, bits.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float2 pair = unpack<Element>(words[i]);
    x[2 * i] = pair.x, x[2 * i + 1] = pair.y;
  }
}
constexpr int kEndThreads = 256, kEndRows = 8;
/// Of so many rows from `first` on for every `lanes` threads.
template <class Element>
__device__ __forceinline__ void multiply_ends(const EndWork& w, int part, int head, int batch) {
  const int lane = threadIdx.x % w.lanes, together = kEndThreads / w.lanes;
  const bool has_channels = 8 * lane < w.rows.width;
  float ends[2][8], x[8];
  widen_eight<Element>(ends[0], w.table.row(0, 0, head) + 16 * lane, has_channels);
  widen_eight<Element>(ends[1], w.table.row(0, w.last, head) + 16 * lane, has_channels);
  float* const to = w.to + (std::int64_t{batch} * w.heads + head) * 2 * w.length;
#pragma unroll
  for (int n = 0; n < kEndRows; ++n) {
    const int token = (part * kEndRows + n) * together + threadIdx.x / w.lanes;
    const bool is_there = token < w.tokens && has_channels;
    widen_eight<Element>(x, w.rows.row(batch, token, head / w.heads_of_row) + 16 * lane, is_there);
    float sum[2] = {0, 0};
#pragma unroll
    for (int i = 0; i < 8; ++i) sum[0] += x[i] * ends[0][i], sum[1] += x[i] * ends[1][i];
    for (int i = 1; i < w.lanes; i *= 2) sum[0] += __shfl_xor_sync(~0u, sum[0], i), sum[1] += __shfl_xor_sync(~0u, sum[1], i);
    if (lane == 0 && token < w.length) to[token] = sum[0] * w.factor, to[token + w.length] = sum[1] * w.factor;
  }
}

}  // namespace phasor::cuda::hopper
