// SPDX-License-Identifier: Apache-2.0
// Strips: products of 64 queries, and of the keys near to them, with the rows of their distances, put where a warpgroup has the scores.
//
// Keys come 64 at a time. By their numbers x = key - query + 64, from 1 to 127, so many keys and queries have two batches of 64 distances
// of which the second is new. Queries meet the new one, and their products with the one before are still there. Keys meet both. A
// warpgroup does the one, a warpgroup the other; both store products as float16, and every score finds its two by a shift. Scores of a
// step are written while the products of the next one run.
#pragma once

#include "cuda/attention/hopper/strip/body.cuh"

namespace phasor::cuda::hopper {

/// Of one block of threads, for 64 queries.
template <class T>
struct StripMaker {
  using Shared = typename T::Shared;
  using Rows = typename T::Rows;
  using Product64 = Product<typename T::Element, T::kStep>;
  static constexpr int kSlices = T::kWidth / 16;
  Shared& shared;
  const StripWork& w;
  const Work at;
  const int group;
  const int row = at.row + kStripQueries * group;
  const int warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32;  // of a warpgroup
  int begin;                                                       // the first key
  int columns;                                                     // of 16 keys
  uint4* to;

  __device__ __forceinline__ StripMaker(Shared& memory, const StripWork& work, const Work& block, int number)
      : shared(memory), w(work), at(block), group(number) {}

  /// Key - query of a step's first key and the first query, positions counted.
  __device__ __forceinline__ int distance(int step) const { return begin + step * T::kStep - row - w.tiles.offset(); }
  __device__ __forceinline__ int far_side(int step) const {
    if (distance(step) + T::kStep - 1 <= -w.strips.clips.left) return 0;
    return distance(step) - (kStripQueries - 1) >= w.strips.clips.right ? 1 : -1;
  }

  // ---- What comes to shared memory ----

  /// 64 rows, of which this thread brings one piece of every so many. row_of(n): the address of row n, null where there is none.
  template <class Row>
  __device__ __forceinline__ void bring_rows(Rows& rows, int width, const Row& row_of) const {
    constexpr int kVectors = T::kWidth / 8, kTogether = T::kThreads / kVectors;
    static_assert(kTogether % 8 == 0);  // so the swizzle is that of the first row
    const int first = threadIdx.x / kVectors, vector = threadIdx.x % kVectors;
    const std::uint32_t to_row = shared_address(rows[vector / 8][first]) + 16 * (vector % 8 ^ first % 8);
#pragma unroll
    for (int n = 0; n < T::kStep; n += kTogether) {
      const unsigned char* const from = row_of(first + n);
      const bool is_there = from != nullptr && 8 * vector < width;
      attention::mma::copy_in(to_row + n * int(sizeof(rows[0][0])), is_there ? from + 16 * vector : w.keys.data, is_there);
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
    const auto bring = [&](Rows& lines, const InputRows& table) {
      if (table.data == nullptr) return;
      const unsigned char* const rows = table.row(0, c.left, at.head);
      const int stride = static_cast<int>(table.strides[1]);
      bring_rows(lines, table.width, [&](int x) { return rows + min(max(first + x, -c.left), c.right) * stride; });
    };
    bring(shared.of_queries, w.of_queries);
    bring(shared.of_keys[n & 1], w.of_keys);
  }
  __device__ __forceinline__ void meet() const { named_sync(1, T::kThreads); }
  /// Until what this block brought is there, for products, too.
  __device__ __forceinline__ void arrive() const {
    attention::mma::copies_wait<0>();
    fence_async();
    meet();
  }
  /// What products of a step read.
  __device__ __forceinline__ void bring_step(int step) const {
    bring_keys(step), bring_batch(step + 1);
    attention::mma::copies_commit();
  }

  // ---- Products: asked for, and stored when they are there ----

  __device__ __forceinline__ void read_queries(std::uint32_t (&q)[4 * kSlices]) const {
#pragma unroll
    for (int x = 0; x < 2; ++x) {
      const int query = row + 16 * warp + 8 * x + lane / 4;
      const unsigned char* const from = w.queries.row(at.batch, query, at.head) + 4 * (lane % 4);
#pragma unroll
      for (int c = 0; c < 2 * kSlices; ++c) {
        const bool is_there = query < w.tiles.queries && 8 * c < w.queries.width;
        q[c / 2 * 4 + c % 2 * 2 + x] = is_there ? *reinterpret_cast<const std::uint32_t*>(from + 16 * c) : 0;
      }
    }
  }
  static __device__ __forceinline__ std::uint64_t slice(std::uint64_t rows, int n) {
    return further(rows, n / 4 * int(sizeof(Rows) / T::kPanels) + n % 4 * 32);
  }
  /// Of 64 rows with 64 rows: four and four halves of a thread's accumulators to lines of so many numbers, from a column on.
  template <int kPitch>
  __device__ __forceinline__ void store(std::uint16_t (*lines)[kPitch], int column, const float (&products)[T::kStep / 2],
                                        float factor) const {
    const std::uint32_t to_line = shared_address(&lines[16 * warp + lane % 16][column + lane / 16 * 8]);
#pragma unroll
    for (int c = 0; c < T::kStep / 8; c += 2) {
      std::uint32_t x[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) x[i] = halves_of(products[4 * c + 2 * i] * factor, products[4 * c + 2 * i + 1] * factor);
      store_blocks(to_line + 16 * c, x[0], x[1], x[2], x[3]);
    }
  }

  /// What the warpgroup of queries does: products with the rows of a batch.
  struct OfQueries {
    std::uint32_t q[4 * kSlices];
    float products[T::kStep / 2];

    __device__ __forceinline__ void ask(const StripMaker& m) {
      const std::uint64_t rows = matrix(m.shared.of_queries, 0);
#pragma unroll
      for (float& x : products) x = 0;
      pin(products);
      products_begin();
#pragma unroll
      for (int n = 0; n < kSlices; ++n) Product64::by_rows(products, q + 4 * n, slice(rows, n));
      products_commit();
    }
    __device__ __forceinline__ void wait() {
      products_wait<0>();
      pin(products);
    }
    /// Batches of even number are there twice, so that each two that follow each other do so in memory.
    __device__ __forceinline__ void keep(const StripMaker& m, int batch) const {
      m.store(m.shared.query_products, (batch & 1) * T::kStep, products, m.w.query_factor);
      if ((batch & 1) == 0) m.store(m.shared.query_products, 2 * T::kStep, products, m.w.query_factor);
    }
  };
  /// And that of keys: products with the rows of a step's two batches.
  struct OfKeys {
    float products[2][T::kStep / 2];

    __device__ __forceinline__ void ask(const StripMaker& m, int step) {
      const std::uint64_t keys = matrix(m.shared.keys, 0);
      const std::uint64_t rows[2] = {matrix(m.shared.of_keys[step & 1], 0), matrix(m.shared.of_keys[(step & 1) ^ 1], 0)};
      pin(products[0]), pin(products[1]);
      products_begin();
#pragma unroll
      for (int n = 0; n < kSlices; ++n) {
#pragma unroll
        for (int b = 0; b < 2; ++b) Product64::shared(products[b], slice(keys, n), slice(rows[b], n), n != 0);
      }
      products_commit();
    }
    __device__ __forceinline__ void wait() {
      products_wait<0>();
      pin(products[0]), pin(products[1]);
    }
    __device__ __forceinline__ void keep(const StripMaker& m) const {
#pragma unroll
      for (int b = 0; b < 2; ++b) m.store(m.shared.key_products, b * T::kStep, products[b], m.w.key_factor);
    }
  };

  // ---- Strips ----

  static __device__ __forceinline__ float half_at(std::uint16_t bits) { return unpack<__half>(bits).x; }
  /// Scores of a step that is near, whose places are the thread's plus constants.
  template <bool kOfQueries, bool kOfKeys>
  __device__ __forceinline__ void write_near(int step) const {
    write(step, [&](int query, int key) {
      const int x = key - query + T::kStep;
      const std::uint16_t* const of_query = &shared.query_products[query][x + (step & 1) * T::kStep];
      const std::uint16_t* const of_key = &shared.key_products[key][x];
      return [=](int i, int j) {
        const float a = kOfQueries ? half_at(of_query[i * T::kQueryPitch + j - i]) : 0;
        const float b = kOfKeys ? half_at(of_key[j * T::kKeyPitch + j - i]) : 0;
        return a + b;
      };
    });
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
    for (int x = 0; x < T::kStep / 16 * 128; x += T::kThreads) {
      const int n = x + threadIdx.x, column = n / 128, thread = n % 128;
      const int query = thread / 32 * 16 + thread % 32 / 4, key = 16 * column + 2 * (thread % 4);
      const auto value = values(query, key);
      const auto pair = [&](int i, int j) { return halves_of(value(i, j), value(i, j + 1)); };
      const uint4 four = {pair(0, 0), pair(8, 0), pair(0, 8), pair(8, 8)};
      if (column + step * (T::kStep / 16) < columns) to[step * (T::kStep / 16 * 128) + n] = four;  // no branch: products run
    }
  }

  // ---- Steps ----

  /// Near steps, by a warpgroup: ask(step), wait() and keep(step) are its products; write(step) is everybody's.
  template <bool kOfQueries, bool kOfKeys, class Ask, class Wait, class Keep>
  __device__ __forceinline__ void near_steps(int near, int last, const Ask& ask, const Wait& wait, const Keep& keep) const {
    const auto next = [&](int step) {
      wait();
      meet();  // nobody reads the rows of this step, or the products of the one before, any more
      if (step + 1 < last) bring_step(step + 1);
      keep(step);
      arrive();
    };
    ask(near);
    next(near);
    for (int step = near + 1; step < last; ++step) {
      ask(step);
      write_near<kOfQueries, kOfKeys>(step - 1);
      next(step);
    }
    write_near<kOfQueries, kOfKeys>(last - 1);
  }
  template <bool kOfQueries, bool kOfKeys>
  __device__ __forceinline__ void make_near(int near, int last) const {
    bring_batch(near);
    attention::mma::copies_commit();
    if (threadIdx.x < 128) {
      OfQueries of;
      if (kOfQueries) read_queries(of.q);
      arrive();
      if (kOfQueries) of.ask(*this), of.wait(), of.keep(*this, near);
      meet();
      bring_step(near);
      arrive();
      near_steps<kOfQueries, kOfKeys>(
          near, last,
          [&](int) {
            if (kOfQueries) of.ask(*this);
          },
          [&] {
            if (kOfQueries) of.wait();
          },
          [&](int step) {
            if (kOfQueries) of.keep(*this, step + 1);
          });
    } else {
      OfKeys of;
      arrive();
      meet();
      bring_step(near);
      arrive();
      near_steps<kOfQueries, kOfKeys>(
          near, last,
          [&](int step) {
            if (kOfKeys) of.ask(*this, step);
          },
          [&] {
            if (kOfKeys) of.wait();
          },
          [&](int) {
            if (kOfKeys) of.keep(*this);
          });
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
    if (w.of_keys.data == nullptr) {
      make_near<true, false>(near, last);
    } else if (w.of_queries.data == nullptr) {
      make_near<false, true>(near, last);
    } else {
      make_near<true, true>(near, last);
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
