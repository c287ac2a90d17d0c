// SPDX-License-Identifier: Apache-2.0
// Tables of rows in a tile. Rows that a tile reads lie close together where positions do: then products with a window of them are made
// once, and each score takes its own. Else every score makes the product of its row.
#pragma once

#include "cuda/attention/tile.hpp"

namespace phasor::cuda::attention {

/// The rows of a tile: first to first + count - 1.
struct RowWindow {
  int64_t first;
  int64_t count;
};

/// The rows in room.rows from the first one at or behind `from` to the last; count 0: there is none.
template <class T, class Block>
PHASOR_HD inline RowWindow rows_from(Block& block, int64_t from, Room<T>& room) {
  constexpr std::int32_t kNone = INT32_MAX;
  block.each([&](int thread, int threads) {
    std::int32_t low = kNone;
    std::int32_t high = -1;
    for (int n = thread; n < kTile * kTile; n += threads) {
      const std::int32_t row = room.rows[n];
      if (row >= from && row < low) low = row;
      if (row > high) high = row;
    }
    room.ends[2 * thread] = low;
    room.ends[2 * thread + 1] = high;
  });
  block.each([&](int thread, int) {
    if (thread != 0) return;
    std::int32_t low = kNone;
    std::int32_t high = -1;
    for (int n = 0; n < kThreads; ++n) {
      if (room.ends[2 * n] < low) low = room.ends[2 * n];
      if (room.ends[2 * n + 1] > high) high = room.ends[2 * n + 1];
    }
    room.row_ends[0] = low;
    room.row_ends[1] = high;
  });
  const std::int32_t low = room.row_ends[0];
  return low == kNone ? RowWindow{0, 0} : RowWindow{low, int64_t{room.row_ends[1]} - low + 1};
}

/// Fills room.rows; the window that holds them all, count 0: there is none.
template <class T, class Block>
PHASOR_HD inline RowWindow find_rows(Block& block, const TableWork& term, const ScoreTile& tile, Room<T>& room) {
  block.each([&](int thread, int threads) {
    for (int n = thread; n < kTile * kTile; n += threads) {
      const int i = n / kTile;
      const int j = n % kTile;
      const bool is_there = i < tile.queries.count && j < tile.keys;
      const int64_t row = is_there ? row_at(term, pair_of(tile, room.query_positions, room.key_positions, i, j)) : -1;
      room.rows[n] = row >= 0 && row < term.table.shape[1] ? static_cast<std::int32_t>(row) : -1;
    }
  });
  return rows_from(block, 0, room);
}

/// Rows of the table, kTile of them from first + `part` kTile on.
PHASOR_HD inline RowsOf table_rows(const TableWork& term, const ScoreTile& tile, const RowWindow& window, int part) {
  return {term.table, tile.queries.sequence.batch, tile.head, window.first + part * kTile, window.count - part * kTile};
}
/// What meets the rows: queries, or keys.
PHASOR_HD inline RowsOf feature_rows(const TableWork& term, const ScoreTile& tile) {
  const int64_t batch = tile.queries.sequence.batch;
  if (term.use == RowUse::key) return {term.features, batch, tile.key_head, tile.first_key, tile.keys};
  return {term.features, batch, tile.head, tile.queries.first, tile.queries.count};
}

/// room.window = the products of each query or key with the rows of a window.
template <class T, class Block>
PHASOR_HD inline void window_products(Block& block, const TableWork& term, const ScoreTile& tile, const RowWindow& window, Room<T>& room) {
  constexpr int kRowOf = kWindow + 1;
  fill(block, room.window, kTile * kRowOf, T{0});
  for (int64_t c = 0; c < term.table.shape[3]; c += kChunk) {
    const int channels = static_cast<int>(least(kChunk, term.table.shape[3] - c));
    bring(block, feature_rows(term, tile), c, room.a, term.shift, tile.head);
    for (int part = 0; part * kTile < window.count; ++part) {
      bring(block, table_rows(term, tile, window, part), c, room.b);
      add_product<Left::numbers, T>(block, {room.a, kRow, 1}, {room.b, 1, kRow}, {room.window + part * kTile, kRowOf, 1},
                                    {kTile, kTile, channels});
    }
  }
}

/// The product of a query or key with one row.
template <class T>
PHASOR_HD inline T row_product(const TableWork& term, const ScoreTile& tile, int of, int64_t row) {
  const RowsOf features = feature_rows(term, tile);
  T sum = 0;
  for (int64_t c = 0; c < term.table.shape[3]; ++c) {
    T x = element_at<T>(features.view, features.batch, features.first + of, features.head, c);
    if (term.shift.data != nullptr) x += element_at<T>(term.shift, 0, 0, tile.head, c);
    sum += x * element_at<T>(term.table, features.batch, row, tile.head, c);
  }
  return sum;
}

/// to (queries, keys) += the products of a tile.
template <class T, class Block>
PHASOR_HD inline void add_table(Block& block, const TableWork& term, const ScoreTile& tile, Room<T>& room, T* to) {
  const RowWindow window = find_rows(block, term, tile, room);
  if (window.count == 0) return;
  const bool is_number = term.use == RowUse::number;
  const bool by_window = !is_number && window.count <= kWindow;
  if (by_window) window_products(block, term, tile, window, room);
  const T scale = static_cast<T>(term.scale);
  each_score(block, tile, [&](int i, int j) {
    const int row = room.rows[i * kTile + j];
    if (row < 0) return;
    const int of = term.use == RowUse::key ? j : i;
    T x = 0;
    if (is_number) {
      x = element_at<T>(term.table, tile.queries.sequence.batch, row, tile.head, 0);
    } else if (by_window) {
      x = room.window[of * (kWindow + 1) + row - window.first];
    } else {
      x = row_product<T>(term, tile, of, row);
    }
    to[i * kScoreRow + j] += scale * x;
  });
}

// ---- Values ----

/// room.window (queries, rows of the window) = the weights in room.scores that meet each row. A thread has a query: sums in one order.
template <class T, class Block>
PHASOR_HD inline void gather_weights(Block& block, const ScoreTile& tile, const RowWindow& window, Room<T>& room) {
  constexpr int kRowOf = kWindow + 1;
  fill(block, room.window, kTile * kRowOf, T{0});
  block.each([&](int thread, int threads) {
    for (int i = thread; i < tile.queries.count; i += threads) {
      for (int j = 0; j < tile.keys; ++j) {
        const int64_t row = room.rows[i * kTile + j] - window.first;
        if (row >= 0 && row < kWindow) room.window[i * kRowOf + row] += room.scores[i * kScoreRow + j];
      }
    }
  });
}

/// room.sums += what rows of the table add to values, of channels `first` to first + `channels` - 1, by the weights in room.scores. A
/// window after another: positions far apart read rows far apart.
template <class T, class Block>
PHASOR_HD inline void add_value_rows(Block& block, const TableWork& term, const ScoreTile& tile, KeySpan channels, Room<T>& room) {
  const RowWindow all = find_rows(block, term, tile, room);
  for (int64_t begin = 0; begin < all.count; begin += kWindow) {
    const RowWindow window = {all.first + begin, least(kWindow, all.count - begin)};
    gather_weights(block, tile, window, room);
    for (int part = 0; part * kTile < window.count; ++part) {
      for (int64_t c = channels.first; c < channels.end; c += kChunk) {
        bring(block, table_rows(term, tile, window, part), c, room.b);
        const int wide = static_cast<int>(least(kChunk, channels.end - c));
        add_product<Left::weights, T>(block, {room.window + part * kTile, kWindow + 1, 1}, {room.b, kRow, 1},
                                      {room.sums + (c - channels.first), kValues<T> + 1, 1}, {kTile, wide, kTile});
      }
    }
  }
}

}  // namespace phasor::cuda::attention
