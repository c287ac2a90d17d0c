// SPDX-License-Identifier: Apache-2.0
// Weights of some rows.
#pragma once

#include "cuda/attention/forward.hpp"

namespace phasor::cuda::attention {

/// A block has a tile of queries of one head.

struct WeightsWork {
  AttentionWork attention;
  AttentionRows rows = {};
  AttentionWeights weights = {};
};
PHASOR_HD inline int64_t weights_blocks(const WeightsWork& work) {
  return most_query_tiles(work.attention) * work.weights.weights.shape[2];
}

/// Whose weights a tile's query has, as an index of an element; -1: it was not asked for.
PHASOR_HD inline int64_t weights_row(const WeightsWork& work, const TensorView& to, const QueryTile& tile, int64_t i, int64_t head) {
  const int64_t batch = tile.sequence.batch - work.rows.batch;
  const int64_t query = tile.first + i - work.rows.query;
  if (batch < 0 || batch >= to.shape[0] || query < 0 || query >= to.shape[1]) return -1;
  return batch * to.strides[0] + query * to.strides[1] + (head - work.rows.head) * to.strides[2];
}

template <class Block, class Value>
PHASOR_HD inline void write_row_tile(Block& block, const WeightsWork& work, const TensorView& to, const ScoreTile& tile,
                                     const Value& value) {
  each_score(block, tile, [&](int i, int j) {
    const int64_t row = weights_row(work, to, tile.queries, i, tile.head);
    if (row >= 0) job::store_element(to.data, to.dtype, row + (tile.first_key + j) * to.strides[3], value(i, j));
  });
}

/// Zeros for every key of the batch row.
template <class Block>
PHASOR_HD inline void clear_rows(Block& block, const WeightsWork& work, const TensorView& to, const QueryTile& tile, int64_t head) {
  if (to.data == nullptr) return;
  block.each([&](int thread, int threads) {
    for (int64_t n = thread; n < tile.count * to.shape[3]; n += threads) {
      const int64_t row = weights_row(work, to, tile, n / to.shape[3], head);
      if (row >= 0) job::store_element(to.data, to.dtype, row + n % to.shape[3] * to.strides[3], 0);
    }
  });
}

/// Of keys of the queries' own sequence, seen or not.
template <class T, class Block>
PHASOR_HD inline void write_factors(Block& block, const WeightsWork& work, const QueryTile& queries, int64_t head, Room<T>& room) {
  if (work.weights.factors.data == nullptr) return;
  const AttentionWork& attention = work.attention;
  const Sequence& s = queries.sequence;
  for (int64_t at = s.first_key; at < s.first_key + s.keys; at += kTile) {
    const ScoreTile tile = {queries, head, key_head_of(attention, head), at, least(kTile, s.first_key + s.keys - at)};
    bring_positions(block, attention, tile, room);
    write_row_tile(block, work, work.weights.factors, tile, [&](int i, int j) {
      return attention.dropout.present ? kept<T>(attention, tile, room.query_positions[i], room.key_positions[j]) : T{1};
    });
  }
}

template <class T, class Block>
PHASOR_HD inline void weights_block(const WeightsWork& work, int64_t index, Room<T>& room, Block& block) {
  const AttentionWork& attention = work.attention;
  const int64_t heads = work.weights.weights.shape[2];
  const int64_t head = work.rows.head + index % heads;
  const QueryTile queries = query_tile_at(attention, index / heads);
  if (queries.count == 0) return;
  clear_rows(block, work, work.weights.weights, queries, head);
  clear_rows(block, work, work.weights.factors, queries, head);
  const KeySpan all = {queries.sequence.first_key, queries.sequence.first_key + queries.sequence.keys};
  begin_rows(block, attention, room);
  each_key_tile(block, attention, queries, head, all, room, [&](const ScoreTile& tile) {
    make_scores(block, attention, tile, room);
    update_softmax(block, room);
  });
  begin_copes(block, attention, room);
  each_key_tile(block, attention, queries, head, all, room, [&](const ScoreTile& tile) {
    make_scores(block, attention, tile, room);
    write_row_tile(block, work, work.weights.weights, tile, [&](int i, int j) {
      const T score = room.scores[i * kScoreRow + j];
      if (score == -infinity<T>()) return T{0};
      return plan::exponential(score - room.max[i]) * end_of_row(attention, head, room.max[i], room.sum[i]).factor;
    });
  });
  write_factors(block, work, queries, head, room);
}

}  // namespace phasor::cuda::attention
