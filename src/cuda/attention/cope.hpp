// SPDX-License-Identifier: Apache-2.0
// CoPE in a tile: gates are added up from the query backwards, so tiles of keys come from the last to the first, and CopeRoom::carry has
// each query's sum of the tiles before, for each CoPE of a call.
#pragma once

#include "cuda/attention/tile.hpp"

namespace phasor::cuda::attention {

/// room.other = the gates, 0 where a key is not counted: not seen, or ahead of its query in a prefix.
template <class T, class Block>
PHASOR_HD inline void cope_gates(Block& block, const AttentionWork& work, const CopeTerm& term, const ScoreTile& tile, Room<T>& room) {
  const Sequence& s = tile.queries.sequence;
  fill(block, room.other, kTile * kScoreRow, T{0});
  for (int64_t c = 0; c < work.shape.width; c += kChunk) {
    const int channels = static_cast<int>(least(kChunk, work.shape.width - c));
    bring(block, RowsOf{work.q, s.batch, tile.head, tile.queries.first, tile.queries.count}, c, room.a);
    bring(block, RowsOf{work.k, s.batch, tile.key_head, tile.first_key, tile.keys}, c, room.b);
    add_product<Left::numbers, T>(block, {room.a, kRow, 1}, {room.b, 1, kRow}, {room.other, kScoreRow, 1}, {kTile, kTile, channels});
  }
  const T scale = static_cast<T>(term.gate_scale);
  each_score(block, tile, [&](int i, int j) {
    T& x = room.other[i * kScoreRow + j];
    const Pair pair = pair_of(tile, room.query_positions, room.key_positions, i, j);
    x = pair.key_position <= pair.query_position && sees(work, pair, s) ? plan::gate_of(scale * x) : T{0};
  });
}

/// Counts from the query on.
template <class T, class Block>
PHASOR_HD inline void begin_copes(Block& block, const AttentionWork& work, Room<T>& room) {
  for (int t = 0; t < work.term_count; ++t) {
    if (work.terms[t].use == TermUse::cope) fill(block, room.copes[work.terms[t].cope_number].carry, kTile, T{0});
  }
}

/// room.window (queries, keys) = the counts: sums of gates from the query back to each key, at most rows - 1. The carry goes on.
template <class T, class Block>
PHASOR_HD inline void cope_counts(Block& block, const TermWork& term, const ScoreTile& tile, Room<T>& room) {
  const T last = static_cast<T>(term.cope.table.shape[1] - 1);
  T* const carry = room.copes[term.cope_number].carry;
  block.each([&](int thread, int threads) {
    for (int i = thread; i < tile.queries.count; i += threads) {
      T sum = carry[i];
      for (int j = static_cast<int>(tile.keys) - 1; j >= 0; --j) {
        sum += room.other[i * kScoreRow + j];
        room.window[i * (kWindow + 1) + j] = sum < last ? sum : last;  // NaN, too: its score is NaN by q . k anyway
      }
      carry[i] = sum;
    }
  });
}

/// The product of a query with a row of the table.
template <class T>
PHASOR_HD inline T cope_product(const AttentionWork& work, const CopeTerm& term, const ScoreTile& tile, int i, int64_t row) {
  T sum = 0;
  for (int64_t c = 0; c < work.shape.width; ++c) {
    sum += element_at<T>(work.q, tile.queries.sequence.batch, tile.queries.first + i, tile.head, c) *
           element_at<T>(term.table, 0, row, tile.head, c);
  }
  return sum;
}

template <class T, class Block>
PHASOR_HD inline void add_cope(Block& block, const AttentionWork& work, const TermWork& of, const ScoreTile& tile, Room<T>& room) {
  const CopeTerm& term = of.cope;
  cope_gates(block, work, term, tile, room);
  cope_counts(block, of, tile, room);
  const T scale = static_cast<T>(term.scale);
  each_score(block, tile, [&](int i, int j) {
    const T count = room.window[i * (kWindow + 1) + j];
    const auto lower = static_cast<int64_t>(count);
    const T part = count - static_cast<T>(lower);
    T x = cope_product<T>(work, term, tile, i, lower);
    if (part != 0) x += part * (cope_product<T>(work, term, tile, i, lower + 1) - x);
    room.scores[i * kScoreRow + j] += scale * x;
  });
}

}  // namespace phasor::cuda::attention
