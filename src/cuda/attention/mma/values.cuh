// SPDX-License-Identifier: Apache-2.0
// Tables by distance that are added to values, at the positions of tokens. No two keys of a tile have the same distance from a query, so
// its weights are laid out by distance without adding any up, and tensor cores multiply them with the rows of these distances, whatever
// clips and buckets say which rows those are. The rows come some at a time, where values were. A tile whose distances all have one row
// (with a clip most of them) adds that row times the sum of the weights instead; its scores stay in registers, where such a row of a
// query-side table is one number for each query.
#pragma once

#include "cuda/attention/mma/shared.cuh"

namespace phasor::cuda::attention::mma {

/// What tables add to the scores of a tile in which every table has one row for all distances: a number for each query.
template <int kQueries>
struct EvenRoom {
  float scores[kQueries];
  std::int32_t rows[kMostTerms];  // of each term, that these scores were made with
};

/// Distances of a tile: of its first query and first key, the least, and the greatest.
struct TileDistances {
  int64_t first;
  int64_t low;
  int64_t high;
};
__device__ inline TileDistances distances_of(const AttentionWork& work, const ScoreTile& tile) {
  const Sequence& s = tile.queries.sequence;
  const int64_t first = query_position(work, s, tile.queries.first) - (tile.first_key - s.first_key);
  return {first, first - (tile.keys - 1), first + tile.queries.count - 1};
}

// ---- Scores ----

/// The row that a term reads at every score; -1: none; kSeveralRows: it must be asked at each.
__device__ inline int64_t even_row(const TermWork& term, const TileDistances& distances) {
  return term.use == TermUse::table ? row_of_all(term.table, distances.low, distances.high) : kSeveralRows;
}
/// Whether a tile's scores are q . k and one number for each query, but for padding. The same for all threads.
__device__ inline bool is_even(const AttentionWork& work, const ScoreTile& tile, int keys) {
  if (work.content_shift.data != nullptr || !is_ended_but_padding(work, tile, keys)) return false;
  const TileDistances distances = distances_of(work, tile);
  for (int t = 0; t < work.term_count; ++t) {
    if (!is_of_values(work.terms[t]) && even_row(work.terms[t], distances) == kSeveralRows) return false;
  }
  return true;
}

/// A query's product with row `row` of a table; queries are in shared memory.
template <class Element, int kWidth>
__device__ inline float even_product(const TableWork& table, const ScoreTile& tile, const unsigned char* q, int query, int64_t row) {
  float sum = 0;
  for (int c = 0; c < table.table.shape[3]; ++c) {
    const auto bits = *reinterpret_cast<const std::uint16_t*>(q + piece_offset<kWidth>(query, c / 8) + 2 * (c % 8));
    sum = fmaf(widened<Element>(bits), element_at<float>(table.table, tile.queries.sequence.batch, row, tile.head, c), sum);
  }
  return sum;
}
/// No rows yet, and so nothing that they add.
template <int kQueries>
__device__ inline void begin_even(EvenRoom<kQueries>& room) {
  const auto thread = static_cast<int>(threadIdx.x);
  if (thread < kQueries) room.scores[thread] = 0;
  if (thread < kMostTerms) room.rows[thread] = static_cast<std::int32_t>(kSeveralRows);
}
/// Made again where rows are others than those of the tile before: once on each side of a band.
template <class Element, int kWidth, int kQueries>
__device__ inline void make_even_scores(const AttentionWork& work, const ScoreTile& tile, const unsigned char* q,
                                        EvenRoom<kQueries>& room) {
  const TileDistances distances = distances_of(work, tile);
  bool same = true;
  for (int t = 0; t < work.term_count; ++t) {
    if (!is_of_values(work.terms[t])) same = same && room.rows[t] == even_row(work.terms[t], distances);
  }
  if (same) return;
  __syncthreads();  // nobody reads those before any more
  for (int i = static_cast<int>(threadIdx.x); i < kQueries; i += kBlockThreads) room.scores[i] = 0;
  for (int t = 0; t < work.term_count; ++t) {
    const TermWork& term = work.terms[t];
    if (is_of_values(term)) continue;
    const int64_t row = even_row(term, distances);
    if (threadIdx.x == 0) room.rows[t] = static_cast<std::int32_t>(row);
    for (int i = static_cast<int>(threadIdx.x); row >= 0 && i < kQueries; i += kBlockThreads) {
      const float product = even_product<Element, kWidth>(term.table, tile, q, i, row);
      room.scores[i] = fmaf(static_cast<float>(term.table.scale), product, room.scores[i]);
    }
  }
  __syncthreads();
}
template <int kQueries, int kColumns>
__device__ __forceinline__ void add_even_scores(const EvenRoom<kQueries>& room, float scale, float (&s)[kColumns][4]) {
  const float* const own = room.scores + 16 * warp_of_block() + lane_of_warp() / 4;
  const float added[2] = {own[0], own[8]};
#pragma unroll
  for (int n = 0; n < kColumns; ++n) {
#pragma unroll
    for (int x = 0; x < 4; ++x) s[n][x] = fmaf(s[n][x], scale, added[x >> 1]);
  }
}

/// -infinity for padding.
template <int kColumns>
__device__ __forceinline__ void hide_padding(const AttentionWork& work, const ScoreTile& tile, float (&s)[kColumns][4]) {
  if (work.see.key_mask.data == nullptr) return;
#pragma unroll
  for (int n = 0; n < kColumns; ++n) {
#pragma unroll
    for (int x = 0; x < 2; ++x) {
      const int64_t key = tile.first_key + 8 * n + 2 * (lane_of_warp() & 3) + x;
      if (is_masked(work, tile.queries.sequence, key)) s[n][x] = s[n][2 + x] = -INFINITY;
    }
  }
}

// ---- Values ----

/// sums += the lane's weights of each of its two queries.
template <int kColumns>
__device__ __forceinline__ void add_up_weights(const float (&p)[kColumns][4], float (&sums)[2]) {
#pragma unroll
  for (int h = 0; h < 2; ++h) {
#pragma unroll
    for (int n = 0; n < kColumns; ++n) sums[h] += p[n][2 * h] + p[n][2 * h + 1];
  }
}
/// o += the sum of each query's weights, of which four lanes have parts, times one row.
template <class Element, int kWide>
__device__ __forceinline__ void add_weighted_row(const HeadRows& rows, const float (&parts)[2], float (&o)[kWide][4]) {
  float sums[2];
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    sums[h] = parts[h] + __shfl_xor_sync(~0U, parts[h], 1);
    sums[h] += __shfl_xor_sync(~0U, sums[h], 2);
  }
#pragma unroll
  for (int n = 0; n < kWide; ++n) {
    const int channel = 8 * n + 2 * (lane_of_warp() & 3);
    const std::uint32_t two = channel < rows.width ? *reinterpret_cast<const std::uint32_t*>(rows.data + channel) : 0;
#pragma unroll
    for (int x = 0; x < 4; ++x) {
      const float of_row = widened<Element>(static_cast<std::uint16_t>(two >> 16 * (x & 1)));
      o[n][x] = fmaf(sums[x >> 1], of_row, o[n][x]);
    }
  }
}

/// o += the sum of each query's weights times one row.
template <class Element, int kColumns, int kWide>
__device__ __forceinline__ void add_even_values(const TableWork& table, const ScoreTile& tile, int64_t row, const float (&p)[kColumns][4],
                                                float (&o)[kWide][4]) {
  float sums[2] = {};
  add_up_weights(p, sums);
  add_weighted_row<Element>(head_rows(table.table, tile.queries.sequence.batch, tile.head, row, 1), sums, o);
}

/// Weights by distance, 16 rows of a warp: key j of row i in column i - j + kKeys - 1. A row is an odd number of 16 bytes, so that eight
/// rows' pieces are in different banks.
template <int kKeys>
struct SkewedWeights {
  static constexpr int kColumns = kKeys + 16;
  static constexpr int kPitch = kColumns + 8;
};
/// Zeros where a row has no such distance.
template <class Element, int kKeys>
__device__ __forceinline__ void skew_weights(const float (&p)[kKeys / 8][4], void* memory) {
  constexpr int kPitch = SkewedWeights<kKeys>::kPitch;
  const int lane = lane_of_warp();
  auto* const to = static_cast<std::uint16_t*>(memory) + 16 * warp_of_block() * kPitch;
#pragma unroll
  for (int n = 0; n < kKeys / 8; ++n) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int row = lane / 4 + 8 * h;
      std::uint16_t* const at = to + row * kPitch + row - (8 * n + 2 * (lane & 3)) + kKeys - 1;
      const std::uint32_t two = pack<Element>(p[n][2 * h], p[n][2 * h + 1]);
      at[0] = static_cast<std::uint16_t>(two);
      at[-1] = static_cast<std::uint16_t>(two >> 16);
    }
  }
#pragma unroll
  for (int n = lane; n < 16 * 16; n += 32) {
    const int row = n / 16;
    const int column = n % 16;
    to[row * kPitch + (column < row ? column : kKeys + column)] = 0;
  }
}

/// Where a block is when it adds what tables add to values.
template <int kQueries, int kKeys>
struct ValueStep {
  const AttentionWork& work;
  ScoreTile tile;
  const SharedRows& at;
  TermRoom<kQueries, kKeys>& room;
};

/// o += weights x rows of their distances (`first`: of the first query and key), kKeys distances at a time.
template <class Element, int kWidth, int kQueries, int kKeys>
__device__ __forceinline__ void add_skewed_values(const TableWork& table, const ValueStep<kQueries, kKeys>& step, int64_t first,
                                                  const float (&p)[kKeys / 8][4], float (&o)[kWidth / 8][4]) {
  constexpr int kDistances = kQueries + kKeys;  // one more than a tile has
  static_assert(kDistances <= kBlockThreads && kDistances % kKeys == 0);
  static_assert(kQueries * SkewedWeights<kKeys>::kPitch * 2 <= sizeof(step.room.window));
  const ScoreTile& tile = step.tile;
  const auto thread = static_cast<int>(threadIdx.x);
  __syncthreads();  // nobody reads the values, weights before, or which ones are kept any more
  if (thread < kDistances) {
    const int64_t row = row_by_distance(table.map, first + thread - (kKeys - 1));
    const bool is_there = thread >= kKeys - tile.keys && thread < tile.queries.count + kKeys - 1 && row >= 0 && row < table.table.shape[1];
    step.room.rows[thread] = is_there ? static_cast<std::int32_t>(row) : -1;
  }
  skew_weights<Element, kKeys>(p, step.room.window);
  const HeadRows rows = head_rows(table.table, tile.queries.sequence.batch, tile.head, 0, table.table.shape[1]);
#pragma unroll
  for (int part = 0; part < kDistances; part += kKeys) {
    __syncthreads();
    bring_listed_rows<kKeys, kWidth>(step.at.values, rows, step.room.rows + part);
    copies_commit();
    copies_wait<0>();
    __syncthreads();
#pragma unroll
    for (int n = 0; n < SkewedWeights<kKeys>::kColumns / 16; ++n) {
      const int row = 16 * (warp_of_block() + n) - part;
      if (row < 0 || row >= kKeys) continue;
      std::uint32_t left[4];
      left_from(left, step.room.window, 2 * SkewedWeights<kKeys>::kPitch, 16 * warp_of_block(), 16 * n);
      add_rows<Element, kWidth>(o, left, step.at.value_bytes, row, 0);
    }
  }
}

/// o += what tables add to values. Values have been taken already: rows come where they are.
template <class K>
__device__ __forceinline__ void add_value_tables(const ValueStep<K::kQueries, K::kKeys>& step, const float (&p)[K::kKeys / 8][4],
                                                 float (&o)[K::kWidth / 8][4]) {
  using Element = typename K::Element;
  const TileDistances distances = distances_of(step.work, step.tile);
  for (int t = 0; t < step.work.term_count; ++t) {
    if (!is_of_values(step.work.terms[t])) continue;
    const TableWork& table = step.work.terms[t].table;
    const int64_t row = row_of_all(table, distances.low, distances.high);
    if (row >= 0) add_even_values<Element>(table, step.tile, row, p, o);
    if (row == kSeveralRows) add_skewed_values<Element, K::kWidth>(table, step, distances.first, p, o);
  }
}

}  // namespace phasor::cuda::attention::mma
