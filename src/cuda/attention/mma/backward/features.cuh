// SPDX-License-Identifier: Apache-2.0
// Features of the call's own that meet the only table in the place of queries (Inkling): they come with a tile's queries, and what they get
// goes to sums of their own.
#pragma once

#include "cuda/attention/mma/backward/query_rows.cuh"
#include "cuda/attention/mma/backward/tables.cuh"

namespace phasor::cuda::attention::mma::backward {

/// Asks for those of a tile's queries: zeros beyond their width, and for queries that are not there.
template <class K>
__device__ inline void bring_features(const Step<K>& at) {
  const QueryTile& queries = at.tile.queries;
  for (int t = 0; t < at.work.term_count; ++t) {
    if (at.work.terms[t].use != TermUse::table) continue;
    const HeadRows rows = head_rows(at.work.terms[t].table.features, queries.sequence.batch, at.tile.head, queries.first, queries.count);
    bring_rows<K::kQueries, K::kRowWidth, kBackwardThreads>(shared_address(at.room.features()), rows);
  }
}
/// As hide_queries does it with queries.
template <class K>
__device__ inline void hide_features(typename K::Room& room) {
  constexpr int kPieces = K::kRowWidth / 8;
#pragma unroll
  for (int n = 0; n < K::kQueries * kPieces / kBackwardThreads; ++n) {
    const int at = n * kBackwardThreads + thread_here();
    if (room.lse[at / kPieces] != INFINITY) continue;
    *reinterpret_cast<uint4*>(room.features() + piece_offset<K::kRowWidth>(at / kPieces, at % kPieces)) = uint4{0, 0, 0, 0};
  }
}

/// What features get: warps that share 16 queries have 16 channels each, in turns.
template <class K>
__device__ __forceinline__ void add_own_feature_gradients(const TableHere<K>& table, const Step<K>& at, const SumRows<float>& to) {
  const auto width = static_cast<int>(table.table.table.shape[3]);
#pragma unroll 1
  for (int step = warp_here() % K::kWarpsOfTile; step < table.steps(); step += K::kWarpsOfTile) {
    float sums[2][4] = {};
    add_feature_gradients<K, RowUse::query>(table, at.room, warp_here() / K::kWarpsOfTile, step, sums);
    float d[2][4] = {};
    add_scaled(d, sums, table.term.scale);
    add_query_rows(query_rows_of<K>(at, to, width, 16 * step), d);
  }
}
/// Queries get nothing of the table.
template <class K>
__device__ __forceinline__ void take_featured_table(const TableHere<K>& table, const Step<K>& at, const TermWork& term) {
  const SumRows<float> features = query_sums<float>(at.work, term.sums.features, at.tile, table.table.table.shape[3]);
  if (features.data == nullptr && table.term.slot == nullptr) return;
  add_up_runs<K, RowUse::query>(at.room, table.map());
  if (features.data != nullptr) add_own_feature_gradients<K>(table, at, features);
  add_table_gradient<K, RowUse::query>(table, at.room);
}

}  // namespace phasor::cuda::attention::mma::backward
