// SPDX-License-Identifier: Apache-2.0
// Weights of some rows, and outputs over disjoint keys made one.
#pragma once

#include "cuda/attention/forward.hpp"

namespace phasor::cuda::attention {

// ---- Weights: a block has a tile of queries of one head ----

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
  begin_rows(block, room);
  each_key_tile(block, attention, queries, head, all, room, [&](const ScoreTile& tile) {
    make_scores(block, attention, tile, room);
    update_softmax(block, room);
  });
  fill(block, room.carry, kTile, T{0});
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

// ---- Parts made one: a block has a row ----

constexpr int kMostParts = 96;
struct MergeWork {
  AttentionPart parts[kMostParts] = {};
  int64_t count = 0;
  AttentionOutputs outputs = {};
};
PHASOR_HD inline int64_t merge_rows(const MergeWork& work) {
  const Extents& s = work.outputs.out.shape;
  return s[0] * s[1] * s[2];
}

template <class View>
PHASOR_HD inline int64_t row_of(const View& v, int64_t n) {
  const int64_t token = n / v.shape[2];
  return token / v.shape[1] * v.strides[0] + token % v.shape[1] * v.strides[1] + n % v.shape[2] * v.strides[2];
}
PHASOR_HD inline double lse_of(const AttentionPart& part, int64_t n) {
  return job::load_element(part.lse.data, part.lse.dtype, row_of(part.lse, n));
}

/// The logarithm of the sum of all; -infinity where no part saw a key.
PHASOR_HD inline double merged_lse(const MergeWork& work, int64_t n) {
  double top = -infinity<double>();
  for (int64_t p = 0; p < work.count; ++p) {
    const double lse = lse_of(work.parts[p], n);
    top = lse > top ? lse : top;
  }
  if (top == -infinity<double>()) top = 0;  // or all are NaN, which is never greater
  double sum = 0;
  for (int64_t p = 0; p < work.count; ++p) sum += plan::weight_of_part(lse_of(work.parts[p], n), top);
  return top + plan::logarithm(sum);
}

/// Every element of the parts is read before it is written, so that outputs may be one of them.
template <class Block>
PHASOR_HD inline void merge_block(const MergeWork& work, int64_t n, double& lse, Block& block) {
  const TensorView& out = work.outputs.out;
  block.each([&](int thread, int) {
    if (thread == 0) lse = merged_lse(work, n);
  });
  block.each([&](int thread, int threads) {
    for (int64_t c = thread; c < out.shape[3]; c += threads) {
      double sum = 0;
      for (int64_t p = 0; p < work.count; ++p) {
        const AttentionPart& part = work.parts[p];
        const double of_part = lse_of(part, n);
        if (of_part == -infinity<double>()) continue;  // it saw nothing: what it holds counts for nothing, NaN too
        const int64_t at = row_of(part.out, n) + c * part.out.strides[3];
        sum += plan::weight_of_part(of_part, lse) * job::load_element(part.out.data, part.out.dtype, at);
      }
      job::store_element(out.data, out.dtype, row_of(out, n) + c * out.strides[3], sum);
    }
  });
  block.each([&](int thread, int) {
    const TensorView& to = work.outputs.lse;
    if (thread == 0 && to.data != nullptr) job::store_element(to.data, to.dtype, row_of(to, n), lse);
  });
}

}  // namespace phasor::cuda::attention
