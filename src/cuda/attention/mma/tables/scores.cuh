// SPDX-License-Identifier: Apache-2.0
// Tables by distance in the forward, scores in registers. The table's rows of all distances of a tile lie in shared memory, in the order of
// distances. Tensor cores multiply 16 queries (or keys) with all rows that they meet, and the score of query i and key j then reads the
// product of query i (or key j) with the row of distance i - j: no score looks up which row it has. The next tile of keys is farther by as
// many distances as it has keys, so only that many rows are new: they come where those of the nearest distances were.
#pragma once

#include "cuda/attention/mma/rows.cuh"
#include "cuda/attention/mma/tiles.hpp"
#include "cuda/attention/scores.hpp"

namespace phasor::cuda::attention::mma {

/// A block's memory besides its rows. Those of the second table are the last: without one a block takes less (shared_bytes_of).
template <int kWidth, int kQueries, int kKeys>
struct TableRoom {
  static constexpr int kDistances = kQueries + kKeys;  // one more than a tile has: the next tile needs it
  static constexpr int kQueryColumns = kKeys + 16;     // of products: one for every distance of 16 queries
  static constexpr int kKeyColumns = kQueries + 16;
  static constexpr int kQueryPitch =
      kQueryColumns + (kWidth > 64 ? 4 : 8);  // pairs go to different banks; at 128 channels there is no room for it
  static constexpr int kKeyPitch = kKeyColumns + 8;
  static constexpr int kProducts = kQueries * kQueryPitch > kKeys* kKeyPitch ? kQueries* kQueryPitch : kKeys* kKeyPitch;
  float products[kProducts];
  float shifts[kMostTables][kWidth];  // vectors that are added to what meets a table's rows
  float content_shift[kWidth];
  float of_rows[kMostTables][kDistances];    // a shift's products with rows, by place
  float of_keys[kKeys];                      // the content's with keys
  std::int32_t numbers[kMostTables][kKeys];  // of the rows that come next; -1: none
  HeadRows tables[kMostTables];              // where rows are: kept, since a tile would divide and multiply for them
  alignas(128) unsigned char rows[kMostTables][kDistances * kWidth * 2];
};

/// Where a block is; goes on with the tiles of keys.
template <class K>
struct TableStep {
  using Room = typename K::Tables;
  const AttentionWork& work;
  TableList tables;
  const SharedRows& at;
  Room& room;
  int64_t batch;
  int64_t head;
  int64_t distance;  // of the block's first query and the tile's first key
  int first;         // the place of the first distance's row: places go around
  bool is_first;     // tile
  __device__ __forceinline__ const TableWork& table(int t) const { return work.terms[tables.term(t)].table; }
  /// What meets the rows of tables of queries.
  __device__ __forceinline__ std::uint32_t queries() const { return tables.own_features ? shared_address(room.rows[1]) : at.q; }
  /// As row_of_all says.
  __device__ __forceinline__ int64_t row_of_tile(int t) const {
    return row_of_all(table(t).map, distance - (K::kKeys - 1), distance + K::kQueries - 1);
  }
  __device__ __forceinline__ int place(int number) const {
    const int place = first + number;
    return place < Room::kDistances ? place : place - Room::kDistances;
  }
};

// ---- Rows ----

/// Writes to room.numbers which rows K::kKeys distances have, of the tile's those from number `from` on. A thread has one distance of one
/// table.
template <class K>
__device__ inline void list_rows(const TableStep<K>& step, int64_t from) {
  static_assert(kMostTables * K::kKeys <= kBlockThreads);
  const auto thread = static_cast<int>(threadIdx.x);
  const int t = thread / K::kKeys;
  if (t >= step.tables.count) return;
  const TableWork& term = step.table(t);
  const int64_t row = row_by_distance(term.map, step.distance + from + thread % K::kKeys - (K::kKeys - 1));
  step.room.numbers[t][thread % K::kKeys] = row >= 0 && row < term.table.shape[1] ? static_cast<std::int32_t>(row) : -1;
}
/// Asks for the features that meet the only table, where rows of a second one would be.
template <class K>
__device__ __forceinline__ void bring_features(const TableStep<K>& step, int64_t first, int64_t count) {
  static_assert(K::Tables::kDistances >= K::kQueries);
  if (!step.tables.own_features) return;
  bring_rows<K::kQueries, K::kWidth>(shared_address(step.room.rows[1]),
                                     head_rows(step.table(0).features, step.batch, step.head, first, count));
}
/// Asks for the rows that are listed, to places from `place` on.
template <class K>
__device__ __forceinline__ void bring_listed(const TableStep<K>& step, int place) {
  for (int t = 0; t < step.tables.count; ++t) {
    bring_listed_rows<K::kKeys, K::kWidth>(shared_address(step.room.rows[t]) + place * K::kWidth * 2, step.room.tables[t],
                                           step.room.numbers[t]);
  }
  copies_commit();
}
/// Asks for the rows that the next tile has more, where the nearest ones of this tile were.
template <class K>
__device__ __forceinline__ void bring_next_rows(TableStep<K>& step) {
  bring_listed<K>(step, step.first);
  step.first = step.place(K::kKeys);
  step.distance += K::kKeys;
  step.is_first = false;
}
/// All rows of the first tile, and vectors.
template <class K>
__device__ inline void begin_tables(const TableStep<K>& step) {
  using Room = typename K::Tables;
  for (int t = static_cast<int>(threadIdx.x); t < step.tables.count; t += kBlockThreads) {
    const ConstTensorView& table = step.table(t).table;
    step.room.tables[t] = head_rows(table, step.batch, step.head, 0, table.shape[1]);
  }
  for (int c = static_cast<int>(threadIdx.x); c < K::kWidth; c += kBlockThreads) {
    const ConstTensorView& content = step.work.content_shift;
    step.room.content_shift[c] = content.data != nullptr && c < content.shape[3] ? element_at<float>(content, 0, 0, step.head, c) : 0;
    for (int t = 0; t < step.tables.count; ++t) {
      const ConstTensorView& shift = step.table(t).shift;
      step.room.shifts[t][c] = shift.data != nullptr && c < shift.shape[3] ? element_at<float>(shift, 0, 0, step.head, c) : 0;
    }
  }
  for (int from = 0; from < Room::kDistances; from += K::kKeys) {
    __syncthreads();  // nobody reads the list before any more
    list_rows<K>(step, from);
    __syncthreads();
    bring_listed<K>(step, from);
  }
}

// ---- Vectors that are added to features ----

/// Products with the keys of a tile and the rows that have come: all of them before the first tile, then the new ones. A barrier behind.
template <class K>
__device__ inline void multiply_shifts(const TableStep<K>& step) {
  using Room = typename K::Tables;
  if (!step.tables.shifted) return;
  const auto thread = static_cast<int>(threadIdx.x);
  if (step.work.content_shift.data != nullptr && thread < K::kKeys) {
    step.room.of_keys[thread] = shift_product<typename K::Element, K::kWidth>(step.room.content_shift, step.at.k_bytes, thread);
  }
  for (int t = 0; t < step.tables.count; ++t) {
    if (step.table(t).shift.data == nullptr) continue;
    for (int n = (step.is_first ? 0 : K::kQueries) + thread; n < Room::kDistances; n += kBlockThreads) {
      const int place = step.place(n);
      step.room.of_rows[t][place] = shift_product<typename K::Element, K::kWidth>(step.room.shifts[t], step.room.rows[t], place);
    }
  }
  __syncthreads();
}

// ---- Scores ----

/// How room.products is laid out: a row for each query of the tile, or for each key (kOfKeys), and in it a column for each distance that
/// the row and its neighbours, 16 rows together, meet: first_distance is the number of their first. place: where the product of a score is.
template <class K, bool kOfKeys>
struct TableSide {
  using Room = typename K::Tables;
  static constexpr int kPitch = kOfKeys ? Room::kKeyPitch : Room::kQueryPitch;
  static constexpr int kColumns = kOfKeys ? Room::kKeyColumns : Room::kQueryColumns;
  static constexpr int kShare = kOfKeys ? kBlockThreads / 32 * 16 / K::kKeys : 1;  // warps that make the products of the same 16 rows
  static __device__ __forceinline__ int first_distance(int tile) { return kOfKeys ? K::kKeys - 16 - 16 * tile : 16 * tile; }
  static __device__ __forceinline__ int place(int query, int key) {
    return kOfKeys ? key * kPitch + query - (key & 15) + 15 : query * kPitch + (query & 15) - key + K::kKeys - 1;
  }
};

/// room.products = 16 rows of queries (or keys) times the rows of their distances.
template <class K, bool kOfKeys>
__device__ __forceinline__ void multiply_distances(const TableStep<K>& step, int t) {
  using Side = TableSide<K, kOfKeys>;
  const int lane = lane_of_warp();
  const int tile = warp_of_block() / Side::kShare;
  const std::uint32_t rows = shared_address(step.room.rows[t]);
  const std::uint32_t features = kOfKeys ? step.at.k : step.queries();
  std::uint32_t left[K::kWidth / 16][4];
#pragma unroll
  for (int c = 0; c < K::kWidth / 16; ++c) left_operand<K::kWidth>(left[c], features, 16 * tile, c);
  float* const to = step.room.products + (16 * tile + lane / 4) * Side::kPitch + 2 * (lane & 3);
#pragma unroll
  for (int n = 0; n < Side::kColumns / 16; ++n) {
    if (n % Side::kShare != warp_of_block() % Side::kShare) continue;
    const int row = step.place(Side::first_distance(tile) + 16 * n) + (lane & 7) + ((lane >> 4) << 3);
    float d[2][4] = {};
#pragma unroll
    for (int c = 0; c < K::kWidth / 16; ++c) {
      std::uint32_t right[4];
      load_matrices(right, rows + piece_offset<K::kWidth>(row, 2 * c + (lane >> 3 & 1)));
      add_product<typename K::Element>(d[0], left[c], right[0], right[1]);
      add_product<typename K::Element>(d[1], left[c], right[2], right[3]);
    }
#pragma unroll
    for (int x = 0; x < 4; ++x) {
      float* const pair = to + 8 * (x & 1) * Side::kPitch + 16 * n + 8 * (x >> 1);
      *reinterpret_cast<float2*>(pair) = {d[x >> 1][2 * (x & 1)], d[x >> 1][2 * (x & 1) + 1]};
    }
  }
}

/// body(score, query, key) for a lane's scores, numbers in the block and the tile.
template <int kColumns, class Body>
__device__ __forceinline__ void each_of_lane(float (&s)[kColumns][4], const Body& body) {
  const int query = warp_of_block() * 16 + lane_of_warp() / 4;
  const int key = 2 * (lane_of_warp() & 3);
#pragma unroll
  for (int n = 0; n < kColumns; ++n) {
#pragma unroll
    for (int x = 0; x < 4; ++x) body(s[n][x], query + 8 * (x >> 1), key + 8 * n + (x & 1));
  }
}

template <class K, bool kOfKeys>
__device__ __forceinline__ void add_products(const TableStep<K>& step, int t, float (&s)[K::kKeys / 8][4]) {
  using Side = TableSide<K, kOfKeys>;
  const TableWork& term = step.table(t);
  const auto scale = static_cast<float>(term.scale);
  const float* const from = step.room.products;
  if (term.shift.data == nullptr) {
    each_of_lane(s, [&](float& x, int query, int key) { x = fmaf(scale, from[Side::place(query, key)], x); });
    return;
  }
  const float* const shifts = step.room.of_rows[t];
  each_of_lane(s, [&](float& x, int query, int key) {
    x = fmaf(scale, from[Side::place(query, key)] + shifts[step.place(query - key + K::kKeys - 1)], x);
  });
}

// ---- Tiles whose distances all have one row, which every place has ----

/// 16 channels of a row as the right operand of a product whose columns are all this row. The left operand takes each of both twice.
template <class K>
__device__ __forceinline__ void load_one_row(std::uint32_t (&two)[2], const unsigned char* rows, int place, int step) {
#pragma unroll
  for (int x = 0; x < 2; ++x) {
    two[x] = *reinterpret_cast<const std::uint32_t*>(rows + piece_offset<K::kWidth>(place, 2 * step + x) + 4 * (lane_of_warp() & 3));
  }
}
/// One number for each query.
template <class K>
__device__ __forceinline__ void add_row_to_queries(const TableStep<K>& step, int t, float (&s)[K::kKeys / 8][4]) {
  float d[4] = {};
#pragma unroll
  for (int c = 0; c < K::kWidth / 16; ++c) {
    std::uint32_t left[4];
    std::uint32_t right[2];
    left_operand<K::kWidth>(left, step.queries(), 16 * warp_of_block(), c);
    load_one_row<K>(right, step.room.rows[t], step.first, c);
    add_product<typename K::Element>(d, left, right[0], right[1]);
  }
  const auto scale = static_cast<float>(step.table(t).scale);
  const float shift = step.table(t).shift.data == nullptr ? 0 : step.room.of_rows[t][step.first];
  const float added[2] = {scale * (d[0] + shift), scale * (d[2] + shift)};
#pragma unroll
  for (int n = 0; n < K::kKeys / 8; ++n) {
#pragma unroll
    for (int x = 0; x < 4; ++x) s[n][x] += added[x >> 1];
  }
}
/// One number for each key.
template <class K>
__device__ __forceinline__ void add_row_to_keys(const TableStep<K>& step, int t, float (&s)[K::kKeys / 8][4]) {
  const int lane = lane_of_warp();
  const auto scale = static_cast<float>(step.table(t).scale);
  const float shift = step.table(t).shift.data == nullptr ? 0 : step.room.of_rows[t][step.first];
  std::uint32_t row[K::kWidth / 16][2];
#pragma unroll
  for (int c = 0; c < K::kWidth / 16; ++c) load_one_row<K>(row[c], step.room.rows[t], step.first, c);
#pragma unroll
  for (int n = 0; n < K::kKeys / 16; ++n) {
    float d[2][4] = {};
#pragma unroll
    for (int c = 0; c < K::kWidth / 16; ++c) {
      const std::uint32_t left[4] = {row[c][0], row[c][0], row[c][1], row[c][1]};
      std::uint32_t right[4];
      load_matrices(right, step.at.k + piece_offset<K::kWidth>(16 * n + (lane & 7) + ((lane >> 4) << 3), 2 * c + (lane >> 3 & 1)));
      add_product<typename K::Element>(d[0], left, right[0], right[1]);
      add_product<typename K::Element>(d[1], left, right[2], right[3]);
    }
#pragma unroll
    for (int x = 0; x < 8; ++x) s[2 * n + (x >> 2)][x & 3] = fmaf(scale, d[x >> 2][x & 1] + shift, s[2 * n + (x >> 2)][x & 3]);
  }
}

// ---- All of it ----

/// s += what a table adds.
template <class K>
__device__ __forceinline__ void add_table(const TableStep<K>& step, int t, float (&s)[K::kKeys / 8][4]) {
  const bool of_keys = step.table(t).use == RowUse::key;
  const int64_t row = step.row_of_tile(t);
  if (row != kSeveralRows) {
    if (row >= 0) of_keys ? add_row_to_keys<K>(step, t, s) : add_row_to_queries<K>(step, t, s);
  } else if (of_keys) {
    __syncthreads();  // nobody reads the products before any more
    multiply_distances<K, true>(step, t);
    __syncthreads();
    add_products<K, true>(step, t, s);
  } else {
    __syncwarp();
    multiply_distances<K, false>(step, t);
    __syncwarp();
    add_products<K, false>(step, t, s);
  }
}

/// s, which has q . k, becomes scores but for biases and caps; and the rows that the next tile has more are listed. Barriers are before it,
/// and behind it.
template <class K>
__device__ __forceinline__ void add_tables(const TableStep<K>& step, float (&s)[K::kKeys / 8][4]) {
  list_rows<K>(step, K::Tables::kDistances);
  multiply_shifts<K>(step);
  const auto scale = static_cast<float>(step.work.scale);
  if (step.work.content_shift.data == nullptr) {
    each_of_lane(s, [&](float& x, int, int) { x *= scale; });
  } else {
    each_of_lane(s, [&](float& x, int, int key) { x = scale * (x + step.room.of_keys[key]); });
  }
  const int of_scores = step.tables.count - (step.tables.valued ? 1 : 0);
  for (int t = 0; t < of_scores; ++t) add_table<K>(step, t, s);  // those of queries first: their products are their warp's own
}

}  // namespace phasor::cuda::attention::mma
