// SPDX-License-Identifier: Apache-2.0
// Strips: products of a block of queries, and of the keys near to them, with the rows of their distances, put where a warpgroup has the
// scores.
//
// Keys come 64 at a time. By their numbers x = key - query + 64, from 1 to 127, so many keys and 64 queries have two batches of 64
// distances of which the second is new. Queries meet the new one, and their products with the one before are still there. Keys meet both.
// The next 64 queries have the same batches a step later, so keys and rows that come once serve all groups of 64 of a block.
//
// A warpgroup for each group makes its products and writes its scores; one brings what comes, a step ahead, and multiplies keys. Products
// are stored as float16, and every score finds its two by a shift. Scores of a step are written while the products of the next one run.
#pragma once

#include "cuda/attention/hopper/strip/body.cuh"

namespace phasor::cuda::hopper {

/// Of one block of threads, for a block of queries.
template <class T>
struct StripMaker {
  using Shared = typename T::Shared;
  using Rows = typename T::Rows;
  using Product64 = Product<typename T::Element, T::kStep>;
  static constexpr int kSlices = T::kWidth / 16;
  /// What threads of this one's warpgroup meet others for: all have read what a step reads; what the next one reads is there.
  enum Barrier { kIsRead = 1, kIsThere = 2 };
  Shared& shared;
  const StripWork& w;
  const Work at;
  const int group = __shfl_sync(~0U, threadIdx.x / 128, 0);  // of 64 queries; that of keys behind them. By a lane: so it is one of a warp
  const int row = at.row + kStripQueries * group;
  const int warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32;  // of a warpgroup
  int begin;                                                       // the first key of the block
  int steps;
  int first_column, end_column;  // of the group, 16 keys each, from the first key on
  uint4* to;                     // of a thread, for column 0

  __device__ __forceinline__ StripMaker(Shared& memory, const StripWork& work, const Work& block) : shared(memory), w(work), at(block) {}

  /// Key - query of a step's first key and the block's first query, positions counted. Batch n of distances begins 64 before that of step
  /// n: group g has batches step - g and the next one.
  __device__ __forceinline__ int distance(int step) const { return begin + step * T::kStep - at.row - w.tiles.offset(); }
  __device__ __forceinline__ bool is_far_left(int step) const { return distance(step) + T::kStep - 1 <= -w.strips.clips.left; }
  __device__ __forceinline__ bool is_far_right(int step) const {
    return distance(step) - (T::kGroups * kStripQueries - 1) >= w.strips.clips.right;
  }

  // ---- What comes to shared memory, by the warpgroup of keys ----

  static constexpr int kPieces = T::kWidth / 8, kTogether = 128 / kPieces;
  static_assert(kTogether % 8 == 0);  // so the swizzle of a thread's rows is that of the first one
  /// 64 rows of a tensor, of which this thread brings a piece of every so many: row_of(n) is the place of row n, is_there(n) whether zeros
  /// take its place.
  template <class Row, class IsThere>
  __device__ __forceinline__ void bring_rows(Rows& rows, const unsigned char* from, std::int64_t stride, int width, const Row& row_of,
                                             const IsThere& is_there) const {
    const int first = threadIdx.x % 128 / kPieces, piece = threadIdx.x % kPieces;
    const bool has_piece = 8 * piece < width;
    const unsigned char* const from_piece = from + (has_piece ? 16 * piece : 0);
    const std::uint32_t to_row = shared_address(rows[piece / 8][first]) + 16 * (piece % 8 ^ first % 8);
#pragma unroll
    for (int n = 0; n < T::kStep; n += kTogether) {
      attention::mma::copy_in(to_row + n * int(sizeof(rows[0][0])), from_piece + row_of(first + n) * stride,
                              has_piece && is_there(first + n));
    }
  }
  __device__ __forceinline__ void bring_keys(int step, bool is_step) const {
    const int first = begin + step * T::kStep, last = w.tiles.keys - 1, end = is_step ? w.tiles.keys - first : 0;
    bring_rows(
        shared.keys[step & 1], w.keys.row(at.batch, 0, at.head / w.tiles.heads_of_key), w.keys.strides[1], w.keys.width,
        [&](int n) { return std::int64_t{min(first + n, last)}; }, [&](int n) { return n < end; });
  }
  template <int kSlots>
  static __device__ __forceinline__ int slot(int batch) {
    return static_cast<int>(static_cast<unsigned>(batch + kSlots) % kSlots);  // the first batch is that of the last group at step 0
  }
  __device__ __forceinline__ void bring_batch(Rows& lines, const InputRows& table, int n, bool is_step) const {
    const Clips& c = w.strips.clips;
    const int first = distance(n) - T::kStep;
    const auto row_of = [&](int x) { return std::int64_t{min(max(first + x, -c.left), c.right)}; };
    bring_rows(lines, table.row(0, c.left, at.head), static_cast<int>(table.strides[1]), table.width, row_of, [&](int) { return is_step; });
  }
  __device__ __forceinline__ void bring_of_queries(int n, bool is_step) const {
    bring_batch(shared.of_queries[slot<T::kQuerySlots>(n)], w.of_queries, n, is_step);
  }
  __device__ __forceinline__ void bring_of_keys(int n, bool is_step) const {
    bring_batch(shared.of_keys[slot<T::kKeySlots>(n)], w.of_keys, n, is_step);
  }
  /// What products of a step read and those of the one before did not. No step: zeros come, without a branch, since products run.
  template <bool kOfQueries, bool kOfKeys>
  __device__ __forceinline__ void bring_step(int step, bool is_step) const {
    if (kOfQueries) bring_of_queries(step + 1, is_step);
    if (kOfKeys) bring_of_keys(step + 1, is_step), bring_keys(step, is_step);
    attention::mma::copies_commit();
  }
  /// Until what this thread brought, but for its last groups of copies, is there for the block's products.
  template <int kPending = 0>
  static __device__ __forceinline__ void arrive() {
    attention::mma::copies_wait<kPending>();
    fence_async();
    named_sync(kIsThere, T::kThreads);
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
  __device__ __forceinline__ void read_keys(std::uint32_t (&k)[4 * kSlices], int step) const {
    const int key = 16 * warp + lane % 16;
    const std::uint32_t from = shared_address(shared.keys[step & 1][0][key]), piece = 16 * (lane / 16 ^ key % 8);
#pragma unroll
    for (int n = 0; n < kSlices; ++n) {
      std::uint32_t four[4];
      attention::mma::load_matrices(four, from + n / 4 * int(sizeof(Rows) / T::kPanels) + (piece ^ n % 4 * 32));
#pragma unroll
      for (int i = 0; i < 4; ++i) k[4 * n + i] = four[i];
    }
  }
  static __device__ __forceinline__ std::uint64_t slice(std::uint64_t rows, int n) {
    return further(rows, n / 4 * int(sizeof(Rows) / T::kPanels) + n % 4 * 32);
  }
  /// One slice of the channels; the first one sets what the others add to.
  static __device__ __forceinline__ void multiply(float (&products)[T::kStep / 2], const std::uint32_t* x, std::uint64_t rows, int n) {
    if (n == 0) {
      Product64::begin_by_rows(products, x, rows);
    } else {
      Product64::by_rows(products, x + 4 * n, slice(rows, n));
    }
  }
  using Halves = std::uint32_t[T::kStep / 4];
  /// Of 64 rows with batches of 64 rows: a thread's accumulators, times a factor, as float16. Mostly all scales are the same.
  template <int kBatches>
  static __device__ __forceinline__ void round(Halves (&halves)[kBatches], float (&products)[kBatches][T::kStep / 2], float factor) {
    if (factor != 1) {
#pragma unroll
      for (int b = 0; b < kBatches; ++b) {
#pragma unroll
        for (float& x : products[b]) x *= factor;
      }
    }
#pragma unroll
    for (int b = 0; b < kBatches; ++b) {
#pragma unroll
      for (int n = 0; n < T::kStep / 4; ++n) halves[b][n] = halves_of(products[b][2 * n], products[b][2 * n + 1]);
      pin(halves[b]);
    }
  }
  /// To lines of so many numbers, from a column on.
  template <int kPitch>
  __device__ __forceinline__ void store(std::uint16_t (*lines)[kPitch], int column, const Halves& x) const {
    const std::uint32_t to_line = shared_address(&lines[16 * warp + lane % 16][column + lane / 16 * 8]);
#pragma unroll
    for (int n = 0; n < T::kStep / 4; n += 4) store_blocks(to_line + 8 * n, x[n], x[n + 1], x[n + 2], x[n + 3]);
  }

  /// What a warpgroup of queries does: products with the rows of a batch. A warp alone reads what it stores.
  struct OfQueries {
    std::uint32_t q[4 * kSlices];
    float products[1][T::kStep / 2];

    __device__ __forceinline__ void ask(const StripMaker& m, int batch) {
      const std::uint64_t rows = matrix(m.shared.of_queries[slot<T::kQuerySlots>(batch)], 0);
      pin(products[0]);
      products_begin();
#pragma unroll
      for (int n = 0; n < kSlices; ++n) multiply(products[0], q, rows, n);
      products_commit();
    }
    __device__ __forceinline__ void wait() {
      products_wait<0>();
      pin(products[0]);
    }
    /// Batches of even number are there twice, so that each two that follow each other do so in memory.
    __device__ __forceinline__ void keep(const StripMaker& m, int batch) {
      Halves halves[1];
      round(halves, products, m.w.query_factor);
      __syncwarp();
      m.store(m.shared.query_products[m.group], (batch & 1) * T::kStep, halves[0]);
      if ((batch & 1) == 0) m.store(m.shared.query_products[m.group], 2 * T::kStep, halves[0]);
      __syncwarp();
    }
  };
  /// And that of keys: products with the rows of all batches of a step.
  struct OfKeys {
    std::uint32_t k[4 * kSlices];
    float products[T::kGroups + 1][T::kStep / 2];
    Halves halves[T::kGroups + 1];

    __device__ __forceinline__ void ask(const StripMaker& m, int step) {
      m.read_keys(k, step);
      std::uint64_t rows[T::kGroups + 1];
#pragma unroll
      for (int b = 0; b <= T::kGroups; ++b) {
        rows[b] = matrix(m.shared.of_keys[slot<T::kKeySlots>(step + 1 - T::kGroups + b)], 0);
        pin(products[b]);
      }
      products_begin();
#pragma unroll
      for (int n = 0; n < kSlices; ++n) {
#pragma unroll
        for (int b = 0; b <= T::kGroups; ++b) multiply(products[b], k, rows[b], n);
      }
      products_commit();
    }
    /// What is left to do when the products before may go is storing.
    __device__ __forceinline__ void wait(const StripMaker& m) {
      products_wait<0>();
#pragma unroll
      for (int b = 0; b <= T::kGroups; ++b) pin(products[b]);
      round(halves, products, m.w.key_factor);
    }
    __device__ __forceinline__ void keep(const StripMaker& m) const {
#pragma unroll
      for (int b = 0; b <= T::kGroups; ++b) m.store(m.shared.key_products, b * T::kStep, halves[b]);
    }
  };

  // ---- Strips, by a warpgroup of queries ----

  /// Two scores of a query, and of the one 8 further on.
  struct Pairs {
    std::uint32_t low, high;
  };
  static __device__ __forceinline__ std::uint32_t two_at(const std::uint16_t* from) {
    return *reinterpret_cast<const std::uint32_t*>(from);
  }
  /// Scores of a step that is near, whose places are the thread's plus constants.
  template <bool kOfQueries, bool kOfKeys>
  __device__ __forceinline__ void write_near(int step) const {
    const int query = 16 * warp + lane / 4, key = 2 * (lane % 4), x = key - query + T::kStep;
    // A query of odd number has its two in two words. Threads of the one before read the second one, too: no other bank is busy then.
    const int odd = query % 2, batches = ((step - group) & 1) * T::kStep;
    const std::uint16_t* const first = &shared.query_products[group][query][x - odd + batches];
    const std::uint16_t* const second = &shared.query_products[group][query | 1][x + odd + batches];
    const std::uint32_t halves = odd == 0 ? 0x3210 : 0x5432;
    const std::uint16_t* const of_key = &shared.key_products[key][x + (T::kGroups - 1 - group) * T::kStep];
    const auto pair = [&](int i, int j) {
      const int place = i * T::kQueryPitch + j - i;
      const std::uint32_t a = kOfQueries ? __byte_perm(two_at(first + place), two_at(second + place), halves) : 0;
      if constexpr (!kOfKeys) return a;
      const std::uint16_t* const from = of_key + j * T::kKeyPitch + j - i;
      const std::uint32_t b = from[0] | std::uint32_t{from[T::kKeyPitch + 1]} << 16;
      return kOfQueries ? sums_of_halves(a, b) : b;
    };
    write(step, [&](int j) { return Pairs{pair(0, j), pair(8, j)}; });
  }
  /// Of steps [from, end) beyond an end: a number of each query, and one of each key.
  __device__ __forceinline__ void write_far(int from, int end, int side) const {
    const std::int64_t line = (std::int64_t{at.batch} * w.tiles.heads + at.head) * 2 + side;
    const bool has_rows = w.of_queries.data != nullptr, has_columns = w.of_keys.data != nullptr;
    const float* const rows = w.strips.rows + line * w.strips.rows_length + row + 16 * warp + lane / 4;
    const float of_row[2] = {has_rows ? rows[0] : 0, has_rows ? rows[8] : 0};
    const float* const columns = w.strips.columns + line * w.strips.columns_length + begin + 2 * (lane % 4);
    for (int step = from; step < end; ++step) {
      write(step, [&](int j) {
        const int key = step * T::kStep + j;
        float2 of_key = {0, 0};
        if (has_columns && key / 16 < end_column) of_key = *reinterpret_cast<const float2*>(columns + key);
        return Pairs{halves_of(of_row[0] + of_key.x, of_row[0] + of_key.y), halves_of(of_row[1] + of_key.x, of_row[1] + of_key.y)};
      });
    }
  }
  /// All that threads of the forward read of a step: pairs(j) are the scores j keys further on than the thread's.
  template <class Value>
  __device__ __forceinline__ void write(int step, const Value& pairs) const {
#pragma unroll
    for (int c = 0; c < T::kStep / 16; ++c) {
      const int column = step * (T::kStep / 16) + c;
      const Pairs left = pairs(16 * c), right = pairs(16 * c + 8);
      const uint4 four = {left.low, left.high, right.low, right.high};
      if (column >= first_column && column < end_column) to[column * 128] = four;  // no branch: products run
    }
  }

  // ---- Steps ----

  template <bool kOfQueries, bool kOfKeys>
  __device__ __forceinline__ void multiply_queries(int near, int last) const {
    OfQueries of;
    if (kOfQueries) read_queries(of.q);
    const auto ask = [&](int batch) {
      if (kOfQueries) of.ask(*this, batch);
    };
    const auto keep = [&](int batch) {
      if (kOfQueries) of.wait();
      named_arrive(kIsRead, T::kThreads);
      if (kOfQueries) of.keep(*this, batch);
    };
    named_sync(kIsThere, T::kThreads);
    if (kOfQueries) of.ask(*this, near - group), of.wait(), of.keep(*this, near - group);
    named_sync(kIsThere, T::kThreads);
    ask(near - group + 1);
    keep(near - group + 1);
    named_sync(kIsThere, T::kThreads);
    for (int step = near + 1; step < last; ++step) {
      ask(step - group + 1);
      write_near<kOfQueries, kOfKeys>(step - 1);
      keep(step - group + 1);
      named_sync(kIsThere, T::kThreads);
    }
    write_near<kOfQueries, kOfKeys>(last - 1);
  }
  template <bool kOfQueries, bool kOfKeys>
  __device__ __forceinline__ void multiply_keys(int near, int last) const {
    OfKeys of;
    for (int n = near - T::kGroups + 1; kOfQueries && n <= near; ++n) bring_of_queries(n, true);
    attention::mma::copies_commit();
    for (int n = near - T::kGroups + 1; kOfKeys && n <= near; ++n) bring_of_keys(n, true);
    bring_step<kOfQueries, kOfKeys>(near, true);
    arrive<1>();  // queries meet the batches before those of the first step
    arrive();
    for (int step = near; step < last; ++step) {
      if (kOfKeys) of.ask(*this, step);
      bring_step<kOfQueries, kOfKeys>(step + 1, step + 1 < last);
      if (kOfKeys) of.wait(*this);
      named_sync(kIsRead, T::kThreads);
      if (kOfKeys) of.keep(*this);
      arrive();
    }
  }
  template <bool kOfQueries, bool kOfKeys>
  __device__ __forceinline__ void make(int near, int last) {
    if (group == T::kGroups) {
      registers_raise<T::kKeyRegisters>();
      if (near < last) multiply_keys<kOfQueries, kOfKeys>(near, last);
    } else {
      registers_lower<T::kQueryRegisters>();
      write_far(0, near, 0);
      if (near < last) multiply_queries<kOfQueries, kOfKeys>(near, last);
      write_far(last, steps, 1);
    }
  }
  /// Tiles that some of a group's queries are near to and the forward's block visits.
  struct Near {
    int first;
    int end;
  };
  __device__ __forceinline__ Near near_tiles(const TileSpan& seen, int number) const {
    const int from = at.row + kStripQueries * number;
    if (number >= w.tiles.block_queries / kStripQueries || from >= w.tiles.queries) return {0, 0};
    return {max(first_near_tile(w.tiles, w.strips.clips, from), seen.first), min(end_near_tile(w.tiles, w.strips.clips, from), seen.end)};
  }
  __device__ __forceinline__ void run() {
    const TileSpan seen = tiles_of(w.tiles, at.row);
    int first = seen.end, end = 0;  // of all groups
#pragma unroll
    for (int g = 0; g < T::kGroups; ++g) {
      const Near near = near_tiles(seen, g);
      if (near.first < near.end) first = min(first, near.first), end = max(end, near.end);
    }
    if (first >= end) return;
    const int columns_of_tile = w.tiles.tile_keys / 16;
    const Near own = near_tiles(seen, group);
    begin = first * w.tiles.tile_keys;
    steps = ((end - first) * w.tiles.tile_keys + T::kStep - 1) / T::kStep;
    first_column = (own.first - first) * columns_of_tile, end_column = (own.end - first) * columns_of_tile;
    if (own.first < own.end) {
      to = w.strips.values + strip_place(w.tiles, w.strips, at.number, group, row, own.first) - first_column * 128 + threadIdx.x % 128;
    }
    int near = 0, last = steps;  // steps that are near to some group
    while (near < steps && is_far_left(near)) ++near;
    while (last > near && is_far_right(last - 1)) --last;
    if (w.of_keys.data == nullptr) {
      make<true, false>(near, last);
    } else if (w.of_queries.data == nullptr) {
      make<false, true>(near, last);
    } else {
      make<true, true>(near, last);
    }
  }
};

/// Block n of a launch: one of its blocks of queries.
template <class T>
__device__ __forceinline__ void make_strip(typename T::Shared& shared, const StripWork& w, int n) {
  StripMaker<T>(shared, w, work_at(w.tiles, w.strips.first + n)).run();
}

}  // namespace phasor::cuda::hopper
