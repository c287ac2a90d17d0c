// SPDX-License-Identifier: Apache-2.0
// What a tile of scores gives to terms, to what met their rows, and to the gradients of weights.
#pragma once

#include "cuda/attention/mma/backward/features.cuh"
#include "cuda/attention/mma/backward/scores.cuh"

namespace phasor::cuda::attention::mma::backward {

/// What a warp adds up for its 16 keys and some of their channels, over queries and heads.
template <class K>
struct KeySums {
  float k[K::kKeyChannels / 8][4] = {};  // to be multiplied by the scale
  float v[K::kKeyChannels / 8][4] = {};
  float gradients[2] = {};  // of the lane's two keys and its queries, of one head
};

// ---- By gradients of scores ----

/// Sums over the warp's 16 queries, which the lanes of g = 0 add to their own places.
template <class K>
__device__ __forceinline__ void add_shift_sums(const float (&d)[K::kChannels / 8][4], float* to) {
#pragma unroll
  for (int n = 0; n < K::kChannels / 8; ++n) {
#pragma unroll
    for (int x = 0; x < 2; ++x) {
      float sum = d[n][x] + d[n][2 + x];
      for (int step = 4; step < 32; step *= 2) sum += __shfl_xor_sync(~0U, sum, step);
      if (lane_here() < 4) to[8 * n + 2 * lane_here() + x] += sum;
    }
  }
}

/// A table that queries meet. `shifted`: how many shifted ones are before it; -1: its shift gets nothing.
template <class K>
__device__ __forceinline__ void take_query_table(const TableHere<K>& table, typename K::Room& room, int shifted,
                                                 float (&q)[K::kChannels / 8][4]) {
  float sums[K::kChannels / 8][4] = {};
  const int tile = warp_here() / K::kWarpsOfTile;
  add_feature_gradients<K, RowUse::query>(table, room, tile, warp_here() % K::kWarpsOfTile * K::kChannels / 16, sums);
  if (shifted >= 0) add_shift_sums<K>(sums, room.shift_sums[shifted][warp_here()]);
  add_scaled(q, sums, table.term.scale);
}
/// One that keys meet.
template <class K>
__device__ __forceinline__ void take_key_table(const TableHere<K>& table, typename K::Room& room, float (&k)[K::kKeyChannels / 8][4]) {
  float sums[K::kKeyChannels / 8][4] = {};
  add_feature_gradients<K, RowUse::key>(table, room, key_tile_of_warp(), share_of_warp() * K::kKeyChannels / 16, sums);
  add_scaled(k, sums, table.term.by_key);
}

/// A bias by distance; gradients lie by queries.
template <class K>
__device__ __forceinline__ void take_bias(const TermHere& term, const Step<K>& at) {
  float* const to = term.slot + at.distance - (kKeys - 1);
  const int queries = static_cast<int>(at.tile.queries.count);
  const int keys = static_cast<int>(at.tile.keys);
  for (int tile = warp_here(); tile < K::kDistances / 16; tile += kWarps) {
    float sums[4] = {};
    each_row_tile<K, RowUse::query>(OfDistances(), at.room, tile, [&](const std::uint32_t(&left)[4], int) { add_row_sums<K>(sums, left); });
    if ((lane_here() & 3) != 0) continue;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int distance = 16 * tile + lane_here() / 4 + 8 * h;  // from that of the first query and the last key on
      if (distance >= kKeys - keys && distance < queries + kKeys - 1) add_one(to + distance, sums[2 * h]);
    }
  }
}

/// A bias given in full: every score of the tile to an element that is its own among the block's heads of a sequence, and that no other
/// block has (layout_terms.cpp). Threads side by side have keys side by side.
template <class K>
__device__ inline void take_dense(const TensorView& to, const Step<K>& at) {
  const ScoreTile& tile = at.tile;
  const int64_t batch = to.shape[0] == 1 ? 0 : tile.queries.sequence.batch;
  const int64_t head = to.shape[2] == 1 ? 0 : tile.head;
  float* const first = static_cast<float*>(to.data) + batch * to.strides[0] + tile.queries.first * to.strides[1] + head * to.strides[2] +
                       tile.first_key * to.strides[3];
  for (int n = thread_here(); n < K::kQueries * kKeys; n += kBackwardThreads) {
    const int query = n / kKeys;
    const int key = n % kKeys;
    if (query >= tile.queries.count || key >= tile.keys) continue;
    const auto* const number = reinterpret_cast<const std::uint16_t*>(number_of<K>(at.room.gradients(), key, query));
    add_one(first + query * to.strides[1] + key * to.strides[3], widened<typename K::Element>(*number));
  }
}

/// Terms from the last to the first: the last table's rows are there. Gradients of scores are, too.
template <class K>
__device__ __forceinline__ void take_terms(const Step<K>& at, Staged& staged, KeySums<K>& keys, float (&q)[K::kChannels / 8][4]) {
  const AttentionWork& work = at.work;
  int shifted = 0;
  for (int t = 0; t < work.term_count; ++t) shifted += work.terms[t].use == TermUse::table && work.terms[t].sums.shift >= 0 ? 1 : 0;
  for (int t = work.term_count - 1; t >= 0; --t) {
    const TermWork& term = work.terms[t];
    if (term.use == TermUse::bias && term.sums.slot >= 0) {
      add_up_runs<K, RowUse::query>(at.room, OfDistances());
      take_bias<K>(at.room.terms[t], at);
    }
    if (term.use == TermUse::dense && term.dense_gradient.data != nullptr) take_dense<K>(term.dense_gradient, at);
    if (term.use != TermUse::table || is_of_values(term)) continue;
    const TableHere<K> table = table_here<K>(at, t, place_of_rows<K>(at, staged, t));
    if constexpr (K::kFeatured) {
      take_featured_table<K>(table, at, term);
      continue;
    }
    if (term.sums.shift >= 0) --shifted;
    if (term.table.use == RowUse::key) {
      add_up_runs<K, RowUse::key>(at.room, table.map());
      take_key_table<K>(table, at.room, keys.k);
      add_table_gradient<K, RowUse::key>(table, at.room);
    } else {
      add_up_runs<K, RowUse::query>(at.room, table.map());
      take_query_table<K>(table, at.room, term.sums.shift >= 0 ? shifted : -1, q);
      add_table_gradient<K, RowUse::query>(table, at.room);
    }
  }
}

// ---- By weights ----

/// Tables of values: what their rows add to the gradients of weights, dp, and what rows get by the weights, p.
template <class K, int kColumns>
__device__ __forceinline__ void take_value_tables(const Step<K>& at, Staged& staged, const float (&p)[kColumns][4],
                                                  float (&dp)[kColumns][4]) {
  for (int t = 0; t < at.work.term_count; ++t) {
    const TermWork& term = at.work.terms[t];
    if (!is_of_values(term)) continue;
    const TableHere<K> table = table_here<K>(at, t, place_of_rows<K>(at, staged, t));
    if (staged.all) copies_wait<0>();
    __syncthreads();  // rows are there, and nobody reads the products before any more
    add_table_scores<K, RowUse::value>(table, at.room, dp);
    if (term.sums.slot < 0) continue;
    __syncthreads();  // nobody reads the products any more
    share<K>(p, at.room.gradients());
    add_up_runs<K, RowUse::value>(at.room, table.map());
    add_table_gradient<K, RowUse::value>(table, at.room);
  }
}

}  // namespace phasor::cuda::attention::mma::backward
