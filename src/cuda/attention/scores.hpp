// SPDX-License-Identifier: Apache-2.0
// A tile of scores: how the q.k score is formed, the terms, the soft cap, and who is not seen.
#pragma once

#include "cuda/attention/bias.hpp"
#include "cuda/attention/cope.hpp"
#include "cuda/attention/tables.hpp"

namespace phasor::cuda::attention {

template <class T, class Block>
PHASOR_HD inline void bring_positions(Block& block, const AttentionWork& work, const ScoreTile& tile, Room<T>& room) {
  block.each([&](int thread, int threads) {
    const Sequence& s = tile.queries.sequence;
    for (int n = thread; n < kTile; n += threads) {
      room.query_positions[n] = n < tile.queries.count ? query_position(work, s, tile.queries.first + n) : 0;
      room.key_positions[n] = n < tile.keys ? key_position(work, s, tile.first_key + n) : 0;
    }
  });
}

// ---- Contents ----

PHASOR_HD inline RowsOf query_rows(const ConstTensorView& view, const ScoreTile& tile) {
  return {view, tile.queries.sequence.batch, tile.head, tile.queries.first, tile.queries.count};
}
PHASOR_HD inline RowsOf key_rows(const ConstTensorView& view, const ScoreTile& tile) {
  return {view, tile.queries.sequence.batch, tile.key_head, tile.first_key, tile.keys};
}

/// ln(zeta) / scale_base of a channel; 0 outside the rotary width.
PHASOR_HD inline double log_zeta(const DecayWork& decay, int64_t channel) {
  const int64_t at = channel - decay.offset;
  if (at < 0 || at >= 2 * decay.pairs) return 0;
  const int64_t pair = decay.interleaved ? at / 2 : at % decay.pairs;
  return plan::xpos_log_zeta(pair, decay.pairs, decay.gamma) / decay.scale_base;
}

/// xPos, score by score: only the quotient of two powers is ever formed, so no position is too far.
template <class T, class Block>
PHASOR_HD inline void add_decayed(Block& block, const AttentionWork& work, const ScoreTile& tile, int64_t channel, Room<T>& room) {
  each_score(block, tile, [&](int i, int j) {
    const auto distance = static_cast<double>(room.query_positions[i] - room.key_positions[j]);
    T sum = 0;
    for (int c = 0; c < kChunk && channel + c < work.shape.width; ++c) {
      const auto factor = static_cast<T>(plan::decay_factor(log_zeta(work.decay, channel + c), distance));
      sum += room.a[i * kRow + c] * room.b[j * kRow + c] * factor;
    }
    room.scores[i * kScoreRow + j] += sum;
  });
}

/// to = q . k of one content.
template <class T, class Block>
PHASOR_HD inline void content_product(Block& block, const AttentionWork& work, const ScoreTile& tile, int content, Room<T>& room, T* to) {
  fill(block, to, kTile * kScoreRow, T{0});
  for (int64_t c = 0; c < work.shape.width; c += kChunk) {
    bring(block, query_rows(work.contents[content].q, tile), c, room.a, work.content_shift, tile.head);
    bring(block, key_rows(work.contents[content].k, tile), c, room.b);
    if (work.decay.present) {
      add_decayed(block, work, tile, c, room);
      continue;
    }
    const int channels = static_cast<int>(least(kChunk, work.shape.width - c));
    add_product<Left::numbers, T>(block, {room.a, kRow, 1}, {room.b, 1, kRow}, {to, kScoreRow, 1}, {kTile, kTile, channels});
  }
}

template <class T, class Block>
PHASOR_HD inline void content_scores(Block& block, const AttentionWork& work, const ScoreTile& tile, Room<T>& room) {
  content_product(block, work, tile, 0, room, room.scores);
  for (int content = 1; content < work.content_count; ++content) {
    content_product(block, work, tile, content, room, room.other);
    each_score(block, tile, [&](int i, int j) {
      if (content_at(work, room.query_positions[i], room.key_positions[j]) != content) return;
      room.scores[i * kScoreRow + j] = room.other[i * kScoreRow + j];
    });
  }
}

// ---- All of it ----

template <class T, class Block>
PHASOR_HD inline void add_term(Block& block, const AttentionWork& work, const TermWork& term, const ScoreTile& tile, Room<T>& room) {
  if (term.use == TermUse::bias) {
    add_bias(block, term.bias, tile, room);
  } else if (term.use == TermUse::dense) {
    const ConstTensorView& bias = term.dense;
    each_score(block, tile, [&](int i, int j) {
      const int64_t query = shared_or(bias, 1, tile.queries.first + i);
      const int64_t key = shared_or(bias, 3, tile.first_key + j);
      room.scores[i * kScoreRow + j] += element_at<T>(bias, tile.queries.sequence.batch, query, tile.head, key);
    });
  } else if (term.use == TermUse::cope) {
    add_cope(block, work, term, tile, room);
  } else if (term.table.use != RowUse::value) {
    add_table(block, term.table, tile, room, room.scores);
  }
}

/// s <- cap tanh(s / cap); -infinity, by which a dense bias hides a key, stays.
template <class T>
PHASOR_HD inline T capped(T score, T cap) {
  return score == -infinity<T>() ? score : plan::soft_cap(score, cap);
}

/// Fills the room's scores: -infinity for what is not seen, and for the rest of the tile. Positions are there already.
template <class T, class Block>
PHASOR_HD inline void make_scores(Block& block, const AttentionWork& work, const ScoreTile& tile, Room<T>& room) {
  content_scores(block, work, tile, room);
  const T scale = static_cast<T>(work.scale);
  each_score(block, tile, [&](int i, int j) { room.scores[i * kScoreRow + j] *= scale; });
  for (int t = 0; t < work.term_count; ++t) add_term(block, work, work.terms[t], tile, room);
  block.each([&](int thread, int threads) {
    for (int n = thread; n < kTile * kTile; n += threads) {
      const int i = n / kTile;
      const int j = n % kTile;
      T& score = room.scores[i * kScoreRow + j];
      const bool seen = i < tile.queries.count && j < tile.keys &&
                        sees(work, pair_of(tile, room.query_positions, room.key_positions, i, j), tile.queries.sequence);
      if (seen && work.softcap != 0) score = capped(score, static_cast<T>(work.softcap));
      if (!seen) score = -infinity<T>();
    }
  });
}

// ---- Dropout ----

/// The numbers of a row of weights; `sequence` by its number.
PHASOR_HD inline math::PhiloxKey dropout_key_of(const AttentionWork& work, int64_t head, int64_t sequence, int64_t query) {
  const DropoutWork& dropout = work.dropout;
  return math::dropout_row_key(dropout.seed, query, dropout.first_head + static_cast<math::u32>(head),
                               dropout.first_sequence + static_cast<math::u32>(sequence));
}
PHASOR_HD inline bool is_kept(const DropoutWork& dropout, const math::PhiloxKey& row, int64_t key) {
  const math::PhiloxBlock words = math::dropout_words(row, math::dropout_block(key), dropout.offset);
  return words.word[math::dropout_word(key)] >= dropout.threshold;
}
/// What a weight is multiplied by.
template <class T>
PHASOR_HD inline T kept(const AttentionWork& work, const ScoreTile& tile, int64_t query, int64_t key) {
  const math::PhiloxKey row = dropout_key_of(work, tile.head, tile.queries.sequence.index, query);
  return is_kept(work.dropout, row, key) ? static_cast<T>(work.dropout.factor) : T{0};
}

}  // namespace phasor::cuda::attention
