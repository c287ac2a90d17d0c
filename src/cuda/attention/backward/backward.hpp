// SPDX-License-Identifier: Apache-2.0
// The general backward: scores again, probabilities, their gradient, and what it reaches. A block adds to rows of queries that are its
// own, and to sums of keys and of terms that it or its part has for itself: nobody else adds there, so bits do not depend on who runs when.
#pragma once

#include "cuda/attention/backward/bias.hpp"
#include "cuda/attention/backward/contents.hpp"
#include "cuda/attention/backward/cope.hpp"

namespace phasor::cuda::attention {

/// room.max = lse, room.sum = delta of the queries of a tile.
template <class T, class Block>
PHASOR_HD inline void bring_saved(Block& block, const BackwardRows<T>& at) {
  const AttentionWork& work = at.work;
  const int64_t batch = at.queries.sequence.batch;
  const T* const delta = sums_at<T>(work, work.backward.delta);
  block.each([&](int thread, int threads) {
    for (int i = thread; i < kTile; i += threads) {
      const bool is_there = i < at.queries.count;
      const int64_t token = at.queries.first + i;
      at.room.max[i] = is_there ? element_at<T>(work.backward.saved.lse, batch, token, at.head, 0) : -infinity<T>();
      at.room.sum[i] = is_there ? delta[row_number(work, batch, token, at.head)] : T{0};
    }
  });
}

/// room.other = do . v, and of what rows of tables add to values.
template <class T, class Block>
PHASOR_HD inline void weight_gradients(Block& block, const BackwardTile<T>& at) {
  const AttentionWork& work = at.work;
  Room<T>& room = at.room;
  fill(block, room.other, kTile * kScoreRow, T{0});
  for (int64_t c = 0; c < work.shape.value_width; c += kChunk) {
    const auto wide = static_cast<int>(least(kChunk, work.shape.value_width - c));
    bring(block, query_rows(work.backward.saved.out_gradient, at.tile), c, room.a);
    bring(block, key_rows(work.v, at.tile), c, room.b);
    add_product<Left::numbers, T>(block, {room.a, kRow, 1}, {room.b, 1, kRow}, {room.other, kScoreRow, 1}, {kTile, kTile, wide});
  }
  for (int t = 0; t < work.term_count; ++t) {
    const TermWork& term = work.terms[t];
    if (term.use == TermUse::table && term.table.use == RowUse::value) add_table(block, term.table, at.tile, room, room.other);
  }
}

/// Scores become the weights that values met, dropped ones 0; room.other, which has the gradient by those, that by scores before the soft
/// cap. What nobody sees is 0 in both, whatever its memory holds.
template <class T, class Block>
PHASOR_HD inline void score_gradients(Block& block, const BackwardTile<T>& at) {
  const AttentionWork& work = at.work;
  Room<T>& room = at.room;
  block.each([&](int thread, int threads) {
    for (int n = thread; n < kTile * kTile; n += threads) {
      const int i = n / kTile;
      T& score = room.scores[i * kScoreRow + n % kTile];
      T& gradient = room.other[i * kScoreRow + n % kTile];
      const T s = score;
      const bool seen = s != -infinity<T>() && room.max[i] != -infinity<T>();
      const T weight = seen ? plan::exponential(s - room.max[i]) : T{0};
      T factor = 1;
      if (seen && work.dropout.present) factor = kept<T>(work, at.tile, room.query_positions[i], room.key_positions[n % kTile]);
      T ds = weight == 0 ? T{0} : weight * ((factor == 0 ? T{0} : factor * gradient) - room.sum[i]);
      if (work.softcap != 0 && ds != 0) ds *= plan::soft_cap_slope(s, static_cast<T>(work.softcap));
      score = factor * weight;
      gradient = ds;
    }
  });
}

/// What weights give to values, and to rows of tables that were added to them.
template <class T, class Block>
PHASOR_HD inline void take_values(Block& block, const BackwardTile<T>& at) {
  const AttentionWork& work = at.work;
  Room<T>& room = at.room;
  const SumRows<T> to = key_sums<T>(work, work.backward.v, at.place, at.tile, work.shape.value_width);
  for (int64_t c = 0; to.data != nullptr && c < work.shape.value_width; c += kChunk) {
    const auto wide = static_cast<int>(least(kChunk, work.shape.value_width - c));
    bring(block, query_rows(work.backward.saved.out_gradient, at.tile), c, room.a);
    add_product<Left::weights, T>(block, {room.scores, 1, kScoreRow}, {room.a, kRow, 1}, {to.data + c, to.row, 1},
                                  {static_cast<int>(at.tile.keys), wide, static_cast<int>(at.tile.queries.count)});
  }
  for (int t = 0; t < work.term_count; ++t) {
    const TermWork& term = work.terms[t];
    if (term.use == TermUse::table && term.table.use == RowUse::value) take_table(block, at, term);
  }
}

template <class T, class Block>
PHASOR_HD inline void take_term(Block& block, const BackwardTile<T>& at, const TermWork& term) {
  if (term.use == TermUse::bias) {
    take_bias(block, at, term);
  } else if (term.use == TermUse::dense) {
    take_dense(block, at, term);
  } else if (term.use == TermUse::cope) {
    take_cope(block, at, term);
  } else if (term.table.use != RowUse::value) {
    take_table(block, at, term);
  }
}

template <class T, class Block>
PHASOR_HD inline void backward_tile(Block& block, const BackwardTile<T>& at) {
  const AttentionWork& work = at.work;
  Room<T>& room = at.room;
  bring_positions(block, work, at.tile, room);
  for (int t = 0; t < work.term_count && work.backward.carry >= 0; ++t) {
    if (work.terms[t].use == TermUse::cope) bring_carry(block, at, work.terms[t]);
  }
  make_scores(block, work, at.tile, room);
  if (work.backward.wants_scores) weight_gradients(block, at);
  score_gradients(block, at);
  take_values(block, at);
  if (!work.backward.wants_scores) return;
  block.each([&](int thread, int threads) {
    for (int n = thread; n < kTile * kScoreRow; n += threads) room.scores[n] = room.other[n];
  });
  for (int t = 0; t < work.term_count; ++t) take_term(block, at, work.terms[t]);
  take_contents(block, at);
}

/// A tile of queries of one head against all keys that it may see, from the first to the last.
template <class T, class Block>
PHASOR_HD inline void backward_rows(Block& block, const BackwardRows<T>& at) {
  const AttentionWork& work = at.work;
  const KeySpan seen = seen_keys(work, at.queries);
  if (seen.first >= seen.end) return;
  bring_saved(block, at);
  for (int t = 0; t < work.term_count; ++t) {
    if (work.terms[t].use == TermUse::cope) begin_cope(block, at, work.terms[t]);
  }
  const int64_t begin = at.queries.sequence.first_key;
  const int64_t last = begin + at.queries.sequence.keys;
  for (int64_t k = (seen.first - begin) / kTile; k < tiles_of(seen.end - begin); ++k) {
    const int64_t first = begin + k * kTile;
    const ScoreTile tile = {at.queries, at.head, key_head_of(work, at.head), first, least(kTile, last - first)};
    backward_tile(block, BackwardTile<T>{work, at.place, tile, at.room});
  }
}

template <class T, class Block>
PHASOR_HD inline void backward_block(const AttentionWork& work, int64_t index, Room<T>& room, Block& block) {
  const BackwardPlace place = backward_place(work, index);
  each_query_tile(work, place, kTile,
                  [&](const QueryTile& queries, int64_t head) { backward_rows(block, BackwardRows<T>{work, place, queries, head, room}); });
}

}  // namespace phasor::cuda::attention
