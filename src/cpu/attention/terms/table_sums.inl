// SPDX-License-Identifier: Apache-2.0
// Sums of what belongs to scores (gradients, probabilities) by row of the table that a score's distance chooses, and where they go. They
// lie as products do (attention_table_windows.inl): a row of scores adds to kKeyTile neighbours, a tile beyond the band to one register a
// query.

/// Where sums D (queries, rows of the packed table) go: D rows to `result`, D^T features to `table`, 1^T D rows to `shift`.
template <class T>
struct SumsTo {
  std::int64_t padded_width;  // of rows, features, result and table
  const T* rows;              // packed
  RowsOf<const T> features;   // of the queries
  RowsOf<T> result;           // null: not wanted
  SlotTable<T> table;
  T* shift;        // null: not wanted
  T* column_sums;  // for shift
};

/// The sums of a tile of queries.
template <class T>
struct TableSums {
  const attend::TableParts* table;
  std::int64_t queries;
  TableBuffers<T> buffers;
  SumsTo<T> to;
};

/// Some rows of the packed table, and a row of sums for each query.
template <class T>
struct SumBlock {
  RowsOf<const T> sums;
  std::int64_t queries;
  std::int64_t first;
  std::int64_t count;
};

template <class T>
void clear_rows(const RowsOf<T>& rows, std::int64_t count, std::int64_t columns) {
  for (std::int64_t i = 0; i < count; ++i) std::fill_n(rows.at(i), columns, T{0});
}
template <class T>
HWY_INLINE void scale_row(T* row, const ColumnRange& columns, T factor) {
  const Reg<T> x = set(factor);
  for (std::int64_t c = columns.first; c < columns.end; c += lanes<T>) store(mul(load(row + c), x), row + c);
}

// ---- Where they go ----

template <class T>
void add_shift(const SumsTo<T>& to, const SumBlock<T>& block) {
  std::fill_n(to.column_sums, block.count, T{0});
  for (std::int64_t i = 0; i < block.queries; ++i) {
    const T* const row = block.sums.at(i);
    std::int64_t c = 0;
    for (; c + lanes<T> <= block.count; c += lanes<T>) store(add(load(to.column_sums + c), load(row + c)), to.column_sums + c);
    for (; c < block.count; ++c) to.column_sums[c] += row[c];
  }
  gemm(Gemm<T>{.m = 1,
               .n = to.padded_width,
               .k = block.count,
               .a = to.column_sums,
               .a_row = 0,
               .a_k = 1,
               .b = to.rows + block.first * to.padded_width,
               .b_row = to.padded_width,
               .c = to.shift,
               .c_row = to.padded_width,
               .add = true});
}

/// D^T features, to the rows that the slot has.
template <class T>
void add_table_rows(const SumsTo<T>& to, const SumBlock<T>& block) {
  const std::int64_t first = std::max(block.first, to.table.first);
  const std::int64_t end = std::min(block.first + block.count, to.table.end);
  if (first >= end) return;
  gemm(Gemm<T>{.m = end - first,
               .n = to.padded_width,
               .k = block.queries,
               .a = block.sums.data + (first - block.first),
               .a_row = 1,
               .a_k = block.sums.stride,
               .b = to.features.data,
               .b_row = to.features.stride,
               .c = to.table.rows + (first - to.table.first) * to.padded_width,
               .c_row = to.padded_width,
               .add = true});
}

/// Rows in pieces that stay in the first cache.
template <class T>
void send_sums(const SumsTo<T>& to, const SumBlock<T>& block) {
  constexpr std::int64_t kPiece = 128;
  for (std::int64_t c = 0; c < block.count && to.result.data != nullptr; c += kPiece) {
    gemm(Gemm<T>{.m = block.queries,
                 .n = to.padded_width,
                 .k = std::min(kPiece, block.count - c),
                 .a = block.sums.data + c,
                 .a_row = block.sums.stride,
                 .a_k = 1,
                 .b = to.rows + (block.first + c) * to.padded_width,
                 .b_row = to.padded_width,
                 .c = to.result.data,
                 .c_row = to.result.stride,
                 .add = true});
  }
  if (to.table.rows != nullptr) add_table_rows(to, block);
  if (to.shift != nullptr) add_shift(to, block);
}

/// One score's share, sent at once. A row that the slot does not have: a masked score of a query whose lse is NaN.
template <class T>
void send_one(const SumsTo<T>& to, std::int64_t query, std::int64_t packed_row, T x) {
  const T* const row = to.rows + packed_row * to.padded_width;
  const bool has_row = to.table.rows != nullptr && packed_row >= to.table.first && packed_row < to.table.end;
  T* const table = has_row ? to.table.rows + (packed_row - to.table.first) * to.padded_width : nullptr;
  for (std::int64_t d = 0; d < to.padded_width; ++d) {
    if (to.result.data != nullptr) to.result.at(query)[d] += x * row[d];
    if (table != nullptr) table[d] += x * to.features.at(query)[d];
    if (to.shift != nullptr) to.shift[d] += x * row[d];
  }
}

// ---- Room for them ----

/// Before the first tile of keys.
template <class T>
void begin_sums(const TableBuffers<T>& s, std::int64_t queries) {
  s.tags->sums = {0, 0};
  s.tags->has_end_sums[0] = s.tags->has_end_sums[1] = 0;
  std::fill_n(s.tags->sum_panels, kRingPanels, -1);
  clear_rows(s.end_sums, queries, s.end_sums.stride);
  std::fill_n(s.pending, 3 * attend::kQueryTile, T{1});
}

/// Whole: columns, cleared where they were not touched yet.
template <class T>
void make_room(const TableSums<T>& m, const ColumnRange& wanted) {
  const RowsOf<T>& rows = m.buffers.sums;
  grow(m.buffers.tags->sums, wanted,
       [&](const ColumnRange& part) { clear_rows(RowsOf<T>{rows.data + part.first, rows.stride}, m.queries, part.end - part.first); });
}

/// Sliding: what lies in a part of the ring goes where sums go.
template <class T>
void send_panel(const TableSums<T>& m, std::int64_t part) {
  const TableBuffers<T>& s = m.buffers;
  const std::int64_t panel = s.tags->sum_panels[part];
  if (panel < 0) return;
  const RowsOf<T> sums = {s.sums.data + part * attend::kKeyTile, s.sums.stride};
  for (std::int64_t i = 0; i < m.queries && part == 0; ++i) add_tile_row(sums.at(i) + kRingPanels * attend::kKeyTile, sums.at(i));
  const std::int64_t first = panel * attend::kKeyTile;
  send_sums(m.to, SumBlock<T>{{sums.data, sums.stride}, m.queries, first, std::min(attend::kKeyTile, m.table->row_count - first)});
}
/// Sliding: a place for the panel, where it has none.
template <class T>
void place_panel(const TableSums<T>& m, std::int64_t panel) {
  const RowsOf<T>& sums = m.buffers.sums;
  const std::int64_t part = panel % kRingPanels;
  if (m.buffers.tags->sum_panels[part] == panel) return;
  send_panel(m, part);
  m.buffers.tags->sum_panels[part] = panel;
  clear_rows(RowsOf<T>{sums.data + part * attend::kKeyTile, sums.stride}, m.queries, attend::kKeyTile);
  if (part == 0) clear_rows(RowsOf<T>{sums.data + kRingPanels * attend::kKeyTile, sums.stride}, m.queries, attend::kKeyTile);
}

// ---- Taking them ----

/// Sums of columns are multiplied by what they wait for, and what has gone to `result` on the way with them.
template <class T>
void settle_columns(const TableSums<T>& m) {
  const TableBuffers<T>& s = m.buffers;
  const bool sliding = m.table->way == attend::TableWay::sliding;
  T* const pending = s.pending + 2 * attend::kQueryTile;
  for (std::int64_t i = 0; i < m.queries; ++i) {
    if (pending[i] == 1) continue;
    scale_row(s.sums.at(i), sliding ? ColumnRange{0, s.sums.stride} : s.tags->sums, pending[i]);
    if (sliding) scale_row(m.to.result.at(i), {0, m.to.padded_width}, pending[i]);
    pending[i] = 1;
  }
}

/// Beyond an end of the band: sums of rows, spread over a register.
template <class T>
void take_end(const TableSums<T>& m, const ScoreTile<T>& tile, TableEnd end) {
  m.buffers.tags->has_end_sums[end] = 1;
  T* const pending = m.buffers.pending + end * attend::kQueryTile;
  for (std::int64_t i = 0; i < m.queries; ++i) {
    const T* const scores = tile.scores + i * attend::kKeyTile;
    T* const to = m.buffers.end_sums.at(i) + end * attend::kTableLanes;
    Reg<T> sum = load(scores);
    HWY_UNROLL(8)
    for (int j = lanes<T>; j < attend::kKeyTile; j += lanes<T>) sum = add(sum, load(scores + j));
    store(mul_add(load(to), set(pending[i]), sum), to);
  }
  std::fill_n(pending, attend::kQueryTile, T{1});
}

/// A row that begins before column 0 or ends after the last one: what lies there has zeros added to it, and goes to the ends.
template <class T>
HWY_INLINE void take_clipped_row(const TableSums<T>& m, const T* scores, std::int64_t i, std::int64_t start, Reg<T> lane) {
  const std::int64_t count = m.table->band.count;
  const Reg<T> before = set(static_cast<T>(-start));
  const Reg<T> last = set(static_cast<T>(count - 1 - start));
  T* const columns = m.buffers.sums.at(i) + start;
  Reg<T> low = zero<T>();
  Reg<T> high = zero<T>();
  HWY_UNROLL(8)
  for (int j = 0; j < attend::kKeyTile; j += lanes<T>) {
    const Reg<T> at = add(lane, set(static_cast<T>(j)));
    const Reg<T> x = load(scores + j);
    const Reg<T> below = if_then_else(less(at, before), x, zero<T>());
    const Reg<T> above = if_then_else(less(last, at), x, zero<T>());
    low = add(low, below);
    high = add(high, above);
    const Reg<T> inside = if_then_else(less(at, before), zero<T>(), if_then_else(less(last, at), zero<T>(), x));  // x - x may be NaN
    store(add(load(columns + j), inside), columns + j);
  }
  T* const ends = m.buffers.end_sums.at(i);
  T* const pending = m.buffers.pending + i;
  store(mul_add(load(ends), set(pending[0]), low), ends);
  store(mul_add(load(ends + attend::kTableLanes), set(pending[attend::kQueryTile]), high), ends + attend::kTableLanes);
  pending[0] = pending[attend::kQueryTile] = 1;
  m.buffers.tags->has_end_sums[low_end] |= start < 0 ? 1 : 0;
  m.buffers.tags->has_end_sums[high_end] |= start + attend::kKeyTile > count ? 1 : 0;
}

template <class T>
void take_whole(const TableSums<T>& m, const ScoreTile<T>& tile) {
  const attend::TableBand& band = m.table->band;
  settle_columns(m);
  make_room(m, columns_of(band, tile));
  const Reg<T> lane = iota(T{0});
  for (std::int64_t i = 0; i < m.queries; ++i) {
    const std::int64_t start = start_of(band, -tile.distance - i);
    const T* const scores = tile.scores + i * attend::kKeyTile;
    if (start >= 0 && start + attend::kKeyTile <= band.count) {
      add_tile_row(scores, m.buffers.sums.at(i) + start);
    } else {
      take_clipped_row(m, scores, i, start, lane);
    }
  }
}

template <class T>
void take_sliding(const TableSums<T>& m, const ScoreTile<T>& tile) {
  const attend::TableBand& band = m.table->band;
  const PanelRange range = panels_of(band, tile);
  settle_columns(m);
  for (std::int64_t panel = range.first; panel <= range.last; ++panel) place_panel(m, panel);
  for (std::int64_t i = 0; i < m.queries; ++i) {
    const std::int64_t place = start_of(band, -tile.distance - i) + kTableMargin;
    add_tile_row(tile.scores + i * attend::kKeyTile, m.buffers.sums.at(i) + (place & kRingMask));
  }
}

/// Score by score.
template <class T>
void take_scores(const TableSums<T>& m, const ScoreTile<T>& tile) {
  const attend::TableBand& band = m.table->band;
  const bool whole = m.table->way == attend::TableWay::whole;
  settle_columns(m);
  if (whole) make_room(m, columns_of(band, tile));
  for (std::int64_t i = 0; i < m.queries; ++i) {
    for (std::int64_t j = 0; j < tile.keys->count; ++j) {
      const T x = tile.scores[i * attend::kKeyTile + j];
      if (x == 0) continue;
      const std::int64_t column = column_of(band, tile.key_positions[j] - tile.rows->positions[i]);
      if (whole) {
        m.buffers.sums.at(i)[column] += x;
      } else {
        send_one(m.to, i, kTableMargin + column, x);
      }
    }
  }
}

/// sums += what belongs to scores (0 where masked).
template <class T>
void take_sums(const TableSums<T>& m, const ScoreTile<T>& tile) {
  if (!tile.regular) return take_scores(m, tile);
  const TableEnd end = end_of(m.table->band, tile);
  if (end != no_end) return take_end(m, tile, end);
  return m.table->way == attend::TableWay::whole ? take_whole(m, tile) : take_sliding(m, tile);
}

/// Every sum of a query is to be multiplied by its factor, now or later.
template <class T>
void rescale_sums(const TableSums<T>& m, const T* factors) {
  for (std::int64_t i = 0; i < 3 * attend::kQueryTile; i += lanes<T>) {
    store(mul(load(m.buffers.pending + i), load(factors + i % attend::kQueryTile)), m.buffers.pending + i);
  }
}

/// After the last tile of keys: what lay beyond an end of the band belongs to its column.
template <class T>
void send_end(const TableSums<T>& m, TableEnd end) {
  const TableBuffers<T>& s = m.buffers;
  const std::int64_t column = end_column(m.table->band, end);
  const bool whole = m.table->way == attend::TableWay::whole;
  if (whole) make_room(m, {column, column + 1});
  for (std::int64_t i = 0; i < m.queries; ++i) {
    T* const sum = s.end_sums.at(i) + end * attend::kTableLanes;
    *sum = reduce_sum(load(sum)) * s.pending[end * attend::kQueryTile + i];
    if (whole) s.sums.at(i)[column] += *sum;
  }
  if (whole) return;
  const RowsOf<const T> sums = {s.end_sums.data + end * attend::kTableLanes, s.end_sums.stride};
  send_sums(m.to, SumBlock<T>{sums, m.queries, column + kTableMargin, 1});
}
template <class T>
void finish_sums(const TableSums<T>& m) {
  const TableBuffers<T>& s = m.buffers;
  settle_columns(m);
  for (std::int64_t part = 0; part < kRingPanels; ++part) send_panel(m, part);
  for (const TableEnd end : {low_end, high_end}) {
    if (s.tags->has_end_sums[end] != 0) send_end(m, end);
  }
  const ColumnRange range = {s.tags->sums.first, std::min(s.tags->sums.end, m.table->band.count)};
  if (range.first < range.end) {
    send_sums(m.to, SumBlock<T>{{s.sums.data + range.first, s.sums.stride}, m.queries, range.first, range.end - range.first});
  }
}
