// SPDX-License-Identifier: Apache-2.0
// Gradients through rows of tables: what scores (or, for a table of values, weights) give to the rows that they read, to what met those
// rows, and to its shift.
#pragma once

#include "cuda/attention/backward/place.hpp"
#include "cuda/attention/tables.hpp"

namespace phasor::cuda::attention {

/// body(window) for every window of rows that the tile reads; room.rows are there.
template <class T, class Block, class Body>
PHASOR_HD inline void each_window(Block& block, Room<T>& room, const Body& body) {
  for (RowWindow rest = rows_from(block, 0, room); rest.count > 0;) {
    const RowWindow window = {rest.first, least(kWindow, rest.count)};
    body(window);
    rest = rows_from(block, window.first + window.count, room);
  }
}

/// room.window (queries, or keys, by rows of the window) = sums of what scores give: weight(i, j). A thread has a query or a key.
template <bool by_key, class T, class Block, class Weight>
PHASOR_HD inline void gather_rows(Block& block, const ScoreTile& tile, const RowWindow& window, Room<T>& room, const Weight& weight) {
  constexpr int kRowOf = kWindow + 1;
  fill(block, room.window, kTile * kRowOf, T{0});
  block.each([&](int thread, int threads) {
    for (int n = thread; n < (by_key ? tile.keys : tile.queries.count); n += threads) {
      for (int m = 0; m < (by_key ? tile.queries.count : tile.keys); ++m) {
        const int i = by_key ? m : n;
        const int j = by_key ? n : m;
        const int64_t row = room.rows[i * kTile + j] - window.first;
        if (room.rows[i * kTile + j] >= 0 && row >= 0 && row < window.count) room.window[n * kRowOf + row] += weight(i, j);
      }
    }
  });
}

/// Where the sums of a tile go; null: not wanted.
template <class T>
struct TableTargets {
  T* table;  // of the tile's head; row r from r table_row on
  int table_row;
  SumRows<T> features;
  T* shift;
};
template <class T>
PHASOR_HD inline TableTargets<T> table_targets(const BackwardTile<T>& at, const TermWork& term) {
  const AttentionWork& work = at.work;
  const TableWork& table = term.table;
  const Extents& shape = table.table.shape;
  TableTargets<T> to = {
      slot_at<T>(work, at.place.index, term.sums.slot), static_cast<int>(slot_heads(work, shape) * shape[3]), {}, nullptr};
  if (to.table != nullptr) to.table += slot_row(work, shape, at.tile.queries.sequence.batch, 0, at.tile.head);
  to.features = {nullptr, 0};
  if (table.use == RowUse::query) {
    to.features = query_sums<T>(work, table.own_features ? term.sums.features : work.backward.q_raw, at.tile, shape[3]);
  } else if (table.use == RowUse::key) {
    to.features = key_sums<T>(work, table.own_features ? term.sums.features : work.backward.k_raw, at.place, at.tile, shape[3]);
  }
  to.shift = slot_at<T>(work, at.place.index, term.sums.shift);
  if (to.shift != nullptr) to.shift += slot_row(work, table.shift.shape, 0, 0, at.tile.head);
  return to;
}

/// A window's sums, room.window, to features, table and shift.
template <class T, class Block>
PHASOR_HD inline void send_window(Block& block, const BackwardTile<T>& at, const TableWork& term, const RowWindow& window,
                                  const TableTargets<T>& to) {
  constexpr int kRowOf = kWindow + 1;
  Room<T>& room = at.room;
  const T scale = static_cast<T>(term.scale);
  const auto count = static_cast<int>(term.use == RowUse::key ? at.tile.keys : at.tile.queries.count);
  const int64_t width = term.table.shape[3];
  for (int64_t c = 0; c < width; c += kChunk) {
    const auto wide = static_cast<int>(least(kChunk, width - c));
    if (to.table != nullptr) bring(block, feature_rows(term, at.tile), c, room.a, term.shift, at.tile.head);
    for (int part = 0; part * kTile < window.count; ++part) {
      const auto rows = static_cast<int>(least(kTile, window.count - part * kTile));
      const T* const sums = room.window + part * kTile;
      if (to.table != nullptr) {
        T* const table = to.table + (window.first + part * kTile) * to.table_row + c;
        add_product<Left::weights, T>(block, {sums, 1, kRowOf}, {room.a, kRow, 1}, {table, to.table_row, 1}, {rows, wide, count}, scale);
      }
      if (to.features.data == nullptr && to.shift == nullptr) continue;
      bring(block, table_rows(term, at.tile, window, part), c, room.b);
      if (to.features.data != nullptr) {
        add_product<Left::weights, T>(block, {sums, kRowOf, 1}, {room.b, kRow, 1}, {to.features.data + c, to.features.row, 1},
                                      {count, wide, rows}, scale);
      }
      if (to.shift != nullptr) {
        add_column_product<T>(block, {{sums, kRowOf, 1}, room.b, {count, wide, rows}, scale}, room, to.shift + c);
      }
    }
  }
}

/// Rows of one number each.
template <class T, class Block>
PHASOR_HD inline void send_numbers(Block& block, const BackwardTile<T>& at, const RowWindow& window, T* to, int row_stride) {
  block.each([&](int thread, int threads) {
    for (int r = thread; r < window.count; r += threads) {
      T sum = 0;
      for (int i = 0; i < at.tile.queries.count; ++i) sum += at.room.window[i * (kWindow + 1) + r];
      to[(window.first + r) * row_stride] += sum;
    }
  });
}

/// Gradients by the numbers in room.scores: of scores, or for a table of values the weights.
template <class T, class Block>
PHASOR_HD inline void take_table(Block& block, const BackwardTile<T>& at, const TermWork& term) {
  const TableTargets<T> to = table_targets(at, term);
  if (to.table == nullptr && to.features.data == nullptr && to.shift == nullptr) return;
  Room<T>& room = at.room;
  if (find_rows(block, term.table, at.tile, room).count == 0) return;
  const auto weight = [&](int i, int j) { return room.scores[i * kScoreRow + j]; };
  each_window(block, room, [&](const RowWindow& window) {
    if (term.table.use == RowUse::key) {
      gather_rows<true>(block, at.tile, window, room, weight);
    } else {
      gather_rows<false>(block, at.tile, window, room, weight);
    }
    if (term.table.use == RowUse::number) {
      send_numbers(block, at, window, to.table, to.table_row);
    } else {
      send_window(block, at, term.table, window, to);
    }
  });
}

}  // namespace phasor::cuda::attention
