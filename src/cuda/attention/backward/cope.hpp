// SPDX-License-Identifier: Apache-2.0
// CoPE, backward: tiles of keys come from the first to the last, so that gradients by counts add up towards the gates that they counted;
// what the forward had counted at each tile is found by its walk beforehand.
#pragma once

#include "cuda/attention/backward/tables.hpp"
#include "cuda/attention/cope.hpp"
#include "cuda/attention/forward.hpp"

namespace phasor::cuda::attention {

/// Where the counts of a block's queries at a tile of keys are kept: those of a call's CoPEs one behind another.
template <class T>
PHASOR_HD inline T* carry_at(const AttentionWork& work, const BackwardPlace& place, const ScoreTile& tile, int cope_number) {
  const int64_t number = (tile.first_key - tile.queries.sequence.first_key) / kTile;
  return slot_at<T>(work, place.index, work.backward.carry) + (cope_number * tiles_of(work.shape.keys) + number) * kTile;
}

template <class T, class Block>
PHASOR_HD inline void bring_carry(Block& block, const BackwardTile<T>& at, const TermWork& term) {
  const T* const from = carry_at<T>(at.work, at.place, at.tile, term.cope_number);
  T* const to = at.room.copes[term.cope_number].carry;
  block.each([&](int thread, int threads) {
    for (int i = thread; i < kTile; i += threads) to[i] = from[i];
  });
}

/// The forward's walk.
template <class T, class Block>
PHASOR_HD inline void begin_cope(Block& block, const BackwardRows<T>& at, const TermWork& term) {
  Room<T>& room = at.room;
  T* const carry = room.copes[term.cope_number].carry;
  T* const by_counts = room.copes[term.cope_number].by_counts;
  block.each([&](int thread, int threads) {
    for (int i = thread; i < kTile; i += threads) carry[i] = by_counts[i] = 0;
  });
  const Sequence& s = at.queries.sequence;
  each_key_tile(block, at.work, at.queries, at.head, {s.first_key, s.first_key + s.keys}, room, [&](const ScoreTile& tile) {
    T* const to = carry_at<T>(at.work, at.place, tile, term.cope_number);
    block.each([&](int thread, int threads) {
      for (int i = thread; i < kTile; i += threads) to[i] = carry[i];
    });
    cope_gates(block, at.work, term.cope, tile, room);
    cope_counts(block, term, tile, room);
  });
}

/// room.window (queries, keys), in rows of scores, = the gradient by counts; room.sums has the counts. Between a row and itself there is no
/// slope.
template <class T, class Block>
PHASOR_HD inline void count_gradients(Block& block, const BackwardTile<T>& at, const CopeTerm& term) {
  Room<T>& room = at.room;
  block.each([&](int thread, int threads) {
    for (int n = thread; n < kTile * kTile; n += threads) {
      room.sums[n / kTile * kScoreRow + n % kTile] = room.window[n / kTile * (kWindow + 1) + n % kTile];
    }
  });
  const T scale = static_cast<T>(term.scale);
  each_score(block, at.tile, [&](int i, int j) {
    const int n = i * kScoreRow + j;
    const auto lower = static_cast<int64_t>(room.sums[n]);
    T by = 0;
    if (room.scores[n] != 0 && room.sums[n] != static_cast<T>(lower)) {
      by = room.scores[n] * scale *
           (cope_product<T>(at.work, term, at.tile, i, lower + 1) - cope_product<T>(at.work, term, at.tile, i, lower));
    }
    room.window[n] = by;
  });
}

/// room.other: gates become the gradient by q . k. A gate is counted by every key that is not after it.
template <class T, class Block>
PHASOR_HD inline void gate_gradients(Block& block, const BackwardTile<T>& at, const TermWork& term) {
  Room<T>& room = at.room;
  T* const by_counts = room.copes[term.cope_number].by_counts;
  const T scale = static_cast<T>(term.cope.gate_scale);
  block.each([&](int thread, int threads) {
    for (int i = thread; i < at.tile.queries.count; i += threads) {
      T sum = by_counts[i];
      for (int j = 0; j < at.tile.keys; ++j) {
        sum += room.window[i * kScoreRow + j];
        T& gate = room.other[i * kScoreRow + j];
        gate = gate == 0 ? T{0} : sum * scale * gate * (1 - gate);
      }
      by_counts[i] = sum;
    }
  });
}

/// By q and k as given, from the gradient by their product in room.other.
template <class T, class Block>
PHASOR_HD inline void send_gates(Block& block, const BackwardTile<T>& at) {
  const AttentionWork& work = at.work;
  const ScoreTile& tile = at.tile;
  Room<T>& room = at.room;
  const SumRows<T> q = query_sums<T>(work, work.backward.q_raw, tile, work.shape.width);
  const SumRows<T> k = key_sums<T>(work, work.backward.k_raw, at.place, tile, work.shape.width);
  const auto queries = static_cast<int>(tile.queries.count);
  const auto keys = static_cast<int>(tile.keys);
  for (int64_t c = 0; c < work.shape.width; c += kChunk) {
    const auto wide = static_cast<int>(least(kChunk, work.shape.width - c));
    bring(block, query_rows(work.q, tile), c, room.a);
    bring(block, key_rows(work.k, tile), c, room.b);
    if (q.data != nullptr)
      add_product<Left::weights, T>(block, {room.other, kScoreRow, 1}, {room.b, kRow, 1}, {q.data + c, q.row, 1}, {queries, wide, keys});
    if (k.data != nullptr)
      add_product<Left::weights, T>(block, {room.other, 1, kScoreRow}, {room.a, kRow, 1}, {k.data + c, k.row, 1}, {keys, wide, queries});
  }
}

/// The rows on either side of each count. `upper`: those above, with the part of the way to them.
template <class T, class Block>
PHASOR_HD inline void send_count_rows(Block& block, const BackwardTile<T>& at, const TermWork& term, bool upper) {
  const TableTargets<T> to = table_targets(at, term);
  if (to.table == nullptr && to.features.data == nullptr) return;
  Room<T>& room = at.room;
  const auto part_of = [&](int i, int j) {
    const T count = room.sums[i * kScoreRow + j];
    return count - static_cast<T>(static_cast<int64_t>(count));
  };
  block.each([&](int thread, int threads) {
    for (int n = thread; n < kTile * kTile; n += threads) room.rows[n] = -1;
  });
  each_score(block, at.tile, [&](int i, int j) {
    const auto lower = static_cast<std::int32_t>(room.sums[i * kScoreRow + j]);
    if (!upper || part_of(i, j) != 0) room.rows[i * kTile + j] = upper ? lower + 1 : lower;
  });
  each_window(block, room, [&](const RowWindow& window) {
    gather_rows<false>(block, at.tile, window, room, [&](int i, int j) {
      const T ds = room.scores[i * kScoreRow + j];
      return ds * (upper ? part_of(i, j) : 1 - part_of(i, j));
    });
    send_window(block, at, term.table, window, to);
  });
}

template <class T, class Block>
PHASOR_HD PHASOR_OUT_OF_LINE inline void take_cope(Block& block, const BackwardTile<T>& at, const TermWork& term) {
  bring_carry(block, at, term);
  cope_gates(block, at.work, term.cope, at.tile, at.room);
  cope_counts(block, term, at.tile, at.room);
  count_gradients(block, at, term.cope);
  gate_gradients(block, at, term);
  send_gates(block, at);
  send_count_rows(block, at, term, false);
  send_count_rows(block, at, term, true);
}

}  // namespace phasor::cuda::attention
