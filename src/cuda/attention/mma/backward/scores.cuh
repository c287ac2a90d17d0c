// SPDX-License-Identifier: Apache-2.0
// Scores of a tile again, in the registers of products: a lane has two keys and pairs of queries. Then weights by the log-sum-exp that the
// forward saved, and the gradients of scores.
#pragma once

#include "cuda/attention/bias.hpp"
#include "cuda/attention/mma/backward/tables.cuh"

namespace phasor::cuda::attention::mma::backward {

/// At the ends of a sequence tiles go beyond what the diagonal holds.
template <class K, int kColumns>
__device__ __forceinline__ void add_bias_scores(const BiasWork& bias, const Step<K>& at, float (&s)[kColumns][4]) {
  const float* const values = static_cast<const float*>(bias.diagonal) + at.tile.head * bias.distances - bias.first_distance + at.distance;
  const int last_query = static_cast<int>(at.tile.queries.count) - 1;
  const int last_key = static_cast<int>(at.tile.keys) - 1;
  each_of_lane(s, [&](float& x, int query, int key) { x += __ldg(values + min(query, last_query) - min(key, last_key)); });
}

template <class K, int kColumns>
__device__ __forceinline__ void add_dense_scores(const ConstTensorView& dense, const Step<K>& at, float (&s)[kColumns][4]) {
  const ScoreTile& tile = at.tile;
  const int64_t of_query = dense.shape[1] == 1 ? 0 : dense.strides[1];
  const int64_t of_key = dense.shape[3] == 1 ? 0 : dense.strides[3];
  const int64_t first = shared_or(dense, 0, tile.queries.sequence.batch) * dense.strides[0] +
                        shared_or(dense, 2, tile.head) * dense.strides[2] + tile.queries.first * of_query + tile.first_key * of_key;
  each_of_lane(s, [&](float& x, int query, int key) {
    if (query < tile.queries.count && key < tile.keys) x += number_at<float>(dense, first + query * of_query + key * of_key);
  });
}

/// s += what a table adds.
template <class K, int kColumns>
__device__ __forceinline__ void add_table(const Step<K>& at, Staged& staged, int t, float (&s)[kColumns][4]) {
  const TermWork& term = at.work.terms[t];
  const int place = place_of_rows<K>(at, staged, t);
  if (staged.all) copies_wait<0>();
  __syncthreads();  // rows are there, and nobody reads the products before any more
  const TableHere<K> table = table_here<K>(at, t, place);
  if constexpr (!K::kFeatured) {
    if (term.table.use == RowUse::key) return add_table_scores<K, RowUse::key>(table, at.room, s);
  }
  add_table_scores<K, RowUse::query>(table, at.room, s);
}

/// d += the warp's 16 rows of `keys` . its rows of `queries`.
template <class K>
__device__ __forceinline__ void multiply_with_queries(float (&d)[1][K::kColumns][4], const unsigned char* keys,
                                                      const unsigned char* queries) {
  const unsigned char* const own = queries + 8 * K::kColumns * share_of_warp() * K::kWidth * 2;
  multiply_rows<typename K::Element, K::kWidth, 8 * K::kColumns, 1>(d, shared_address(keys), 16 * key_tile_of_warp(), shared_address(own),
                                                                    lane_here());
}
/// s = scale q . k and what terms add, capped.
template <class K, int kColumns>
__device__ __forceinline__ void make_scores(const Step<K>& at, Staged& staged, float (&s)[1][kColumns][4]) {
  const AttentionWork& work = at.work;
  typename K::Room& room = at.room;
  multiply_with_queries<K>(s, room.k, room.q);
  const auto scale = static_cast<float>(work.scale);
  if (work.content_shift.data == nullptr) {
    each_of_lane(s[0], [&](float& x, int, int) { x *= scale; });
  } else {
    each_of_lane(s[0], [&](float& x, int, int key) { x = scale * (x + room.shifts_of_keys[key]); });
  }
  for (int t = 0; t < work.term_count; ++t) {
    const TermWork& term = work.terms[t];
    if (term.use == TermUse::bias) {
      add_bias_scores<K>(term.bias, at, s[0]);
    } else if (term.use == TermUse::dense) {
      add_dense_scores<K>(term.dense, at, s[0]);
    } else if (!is_of_values(term)) {
      add_table<K>(at, staged, t, s[0]);
    }
  }
  if (work.softcap == 0) return;
  const auto cap = static_cast<float>(work.softcap);
  each_of_lane(s[0], [&](float& x, int, int) { x = capped(x, cap); });
}

/// Whether every query of a tile sees every key of it, but for padding. The same for all threads.
template <class K>
__device__ inline bool is_whole(const Step<K>& at, const Bands& bands, int position, int key) {
  const Band low = bands.at(position);
  const Band high = bands.at(position + static_cast<int>(at.tile.queries.count) - 1);
  return at.tile.keys == kKeys && low.count > 0 && low.first + low.count >= key + kKeys && high.first <= key;
}

/// Scores become weights: 0 for what is not seen.
template <class K, int kColumns>
__device__ __forceinline__ void make_weights(const Step<K>& at, float (&s)[kColumns][4]) {
  const Sequence& sequence = at.tile.queries.sequence;
  const typename K::Room& room = at.room;
  each_of_lane(s, [&](float& x, int query, int) { x = exp2_approximate(fmaf(x, kLog2E, -room.lse[query])); });
  const Bands bands = bands_of(at.work, sequence);
  const auto key = static_cast<int>(at.tile.first_key - sequence.first_key);
  const int position = at.distance + key;
  const bool whole = is_whole(at, bands, position, key);
  if (!whole) {
    each_of_lane(s, [&](float& x, int query, int own) {
      const Band band = bands.at(position + query);
      if (static_cast<unsigned>(key + own - band.first) >= static_cast<unsigned>(band.count)) x = 0;
    });
  }
  if (at.work.see.key_mask.data == nullptr) return;
  const int own = key_of_lane();
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    if (own + 8 * h < at.tile.keys && !is_masked(at.work, sequence, at.tile.first_key + own + 8 * h)) continue;
#pragma unroll
    for (int n = 0; n < kColumns; ++n) s[n][2 * h] = s[n][2 * h + 1] = 0;
  }
}

/// dp, which has the gradients of weights, becomes those of scores before their cap.
template <class K, int kColumns>
__device__ __forceinline__ void make_gradients(const Step<K>& at, const float (&p)[kColumns][4], float (&dp)[kColumns][4]) {
  const int query = query_of_lane<kColumns>();
#pragma unroll
  for (int n = 0; n < kColumns; ++n) {
#pragma unroll
    for (int x = 0; x < 4; ++x) dp[n][x] = p[n][x] == 0 ? 0 : p[n][x] * (dp[n][x] - at.room.delta[query + 8 * n + (x & 1)]);
  }
  if (at.work.softcap == 0) return;
  const auto cap = static_cast<float>(at.work.softcap);
#pragma unroll
  for (int n = 0; n < kColumns; ++n) {
#pragma unroll
    for (int x = 0; x < 4; ++x) {  // the capped score, from its weight (kLeastCap): no register keeps it
      const float score = (log2_approximate(p[n][x]) + at.room.lse[query + 8 * n + (x & 1)]) * kLn2;
      if (p[n][x] != 0) dp[n][x] *= plan::soft_cap_slope(score, cap);
    }
  }
}

}  // namespace phasor::cuda::attention::mma::backward
