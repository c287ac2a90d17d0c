// SPDX-License-Identifier: Apache-2.0
// Sums of what belongs to scores (gradients, probabilities) by row of the table that a score's distance chooses, and where they go. They
// lie as products do (attention_table_windows.inl): a row of scores adds to kKeyTile neighbours.

/// Where sums D (queries, rows of the packed table) go: D rows to `result`, D^T features to `table`, 1^T D rows to `shift`.
template <class T>
struct SumsTo {
  std::int64_t places;       // of rows, features, result and table
  const T* rows;             // packed
  RowsOf<const T> features;  // of the queries
  RowsOf<T> result;          // null: not wanted
  T* table;                  // null: not wanted
  T* shift;                  // null: not wanted
  T* column_sums;            // for shift
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
  for (std::int64_t i = 0; i < count; ++i) std::fill_n(rows.data + i * rows.stride, columns, T{0});
}
/// The sum of a row of scores, spread over a register of `to`, whose places are of one column (as far as keys go: where a short tile ends,
/// zeros are added to other columns).
template <class T>
HWY_INLINE void add_folded_row(const T* from, T* to) {
  Reg<T> sum = load(from);
  HWY_UNROLL(8)
  for (int j = lanes<T>; j < job::kKeyTile; j += lanes<T>) sum = add(sum, load(from + j));
  store(add(load(to), sum), to);
}
template <class T>
HWY_INLINE T sum_tile_row(const T* from) {
  Reg<T> sum = load(from);
  HWY_UNROLL(8)
  for (int j = lanes<T>; j < job::kKeyTile; j += lanes<T>) sum = add(sum, load(from + j));
  return reduce_sum(sum);
}

// ---- Where they go ----

template <class T>
void add_shift(const SumsTo<T>& to, const SumBlock<T>& block) {
  std::fill_n(to.column_sums, block.count, T{0});
  for (std::int64_t i = 0; i < block.queries; ++i) {
    const T* const row = block.sums.data + i * block.sums.stride;
    std::int64_t c = 0;
    for (; c + lanes<T> <= block.count; c += lanes<T>) store(add(load(to.column_sums + c), load(row + c)), to.column_sums + c);
    for (; c < block.count; ++c) to.column_sums[c] += row[c];
  }
  gemm(Gemm<T>{.m = 1,
               .n = to.places,
               .k = block.count,
               .a = to.column_sums,
               .a_row = 0,
               .a_k = 1,
               .b = to.rows + block.first * to.places,
               .b_row = to.places,
               .c = to.shift,
               .c_row = to.places,
               .add = true});
}

/// Rows in pieces that stay in the first cache.
template <class T>
void send_sums(const SumsTo<T>& to, const SumBlock<T>& block) {
  constexpr std::int64_t kPiece = 128;
  for (std::int64_t c = 0; c < block.count && to.result.data != nullptr; c += kPiece) {
    gemm(Gemm<T>{.m = block.queries,
                 .n = to.places,
                 .k = std::min(kPiece, block.count - c),
                 .a = block.sums.data + c,
                 .a_row = block.sums.stride,
                 .a_k = 1,
                 .b = to.rows + (block.first + c) * to.places,
                 .b_row = to.places,
                 .c = to.result.data,
                 .c_row = to.result.stride,
                 .add = true});
  }
  if (to.table != nullptr) {
    gemm(Gemm<T>{.m = block.count,
                 .n = to.places,
                 .k = block.queries,
                 .a = block.sums.data,
                 .a_row = 1,
                 .a_k = block.sums.stride,
                 .b = to.features.data,
                 .b_row = to.features.stride,
                 .c = to.table + block.first * to.places,
                 .c_row = to.places,
                 .add = true});
  }
  if (to.shift != nullptr) add_shift(to, block);
}

/// One score's share, sent at once.
template <class T>
void send_one(const SumsTo<T>& to, const TableCell& at, T x) {
  const T* const row = to.rows + at.column * to.places;
  for (std::int64_t d = 0; d < to.places; ++d) {
    if (to.result.data != nullptr) to.result.data[at.query * to.result.stride + d] += x * row[d];
    if (to.table != nullptr) to.table[at.column * to.places + d] += x * to.features.data[at.query * to.features.stride + d];
    if (to.shift != nullptr) to.shift[d] += x * row[d];
  }
}

// ---- Taking them ----

/// Before the first tile of keys.
template <class T>
void begin_sums(const job::TableParts& table, std::int64_t queries, const TableBuffers<T>& s) {
  s.tags->sums = {0, 0};
  std::fill_n(s.tags->sum_panels, kRingPanels, -1);
  if (table.way == job::TableWay::indexed) clear_rows(s.packed_sums, queries, table.band.packed_rows);
}

/// Places that hold sums, the margins of columns that do included.
inline ColumnRange places_of(const job::TableBand& band, const ColumnRange& columns) {
  return {columns.first == 0 ? 0 : columns.first + kTableMargin,
          columns.end < band.count ? columns.end + kTableMargin : band.count + 2 * kTableMargin};
}

/// Sliding: what lies in a part of the ring goes where sums go.
template <class T>
void send_panel(const job::TableParts& table, std::int64_t queries, const TableBuffers<T>& s, const SumsTo<T>& to, std::int64_t part) {
  const std::int64_t panel = s.tags->sum_panels[part];
  if (panel < 0) return;
  T* const sums = s.sums.data + part * job::kKeyTile;
  for (std::int64_t i = 0; i < queries && part == 0; ++i) {
    T* const row = sums + i * s.sums.stride;
    add_tile_row(row + kRingPanels * job::kKeyTile, row);
  }
  const std::int64_t first = panel * job::kKeyTile;
  send_sums(to, SumBlock<T>{{sums, s.sums.stride}, queries, first, std::min(job::kKeyTile, table.row_count - first)});
}
/// Sliding: a place for the panel, where it has none.
template <class T>
void place_panel(const job::TableParts& table, std::int64_t queries, const TableBuffers<T>& s, const SumsTo<T>& to, std::int64_t panel) {
  const std::int64_t part = panel % kRingPanels;
  if (s.tags->sum_panels[part] == panel) return;
  send_panel(table, queries, s, to, part);
  s.tags->sum_panels[part] = panel;
  clear_rows(RowsOf<T>{s.sums.data + part * job::kKeyTile, s.sums.stride}, queries, job::kKeyTile);
  if (part == 0) clear_rows(RowsOf<T>{s.sums.data + kRingPanels * job::kKeyTile, s.sums.stride}, queries, job::kKeyTile);
}

/// Score by score.
template <class T>
void take_scores(const job::TableParts& table, const ScoreTile<T>& tile, const TableBuffers<T>& s, const SumsTo<T>& to) {
  for (std::int64_t i = 0; i < tile.rows->tile->count; ++i) {
    for (std::int64_t j = 0; j < tile.keys->count; ++j) {
      const T x = tile.scores[i * job::kKeyTile + j];
      if (x == 0) continue;
      const std::int64_t column = column_of(table.band, tile.key_positions[j] - tile.rows->positions[i]);
      if (table.way == job::TableWay::whole) {
        s.sums.data[i * s.sums.stride + kTableMargin + column] += x;
      } else if (table.way == job::TableWay::indexed) {
        s.packed_sums.data[i * s.packed_sums.stride + table.band.rows[column]] += x;
      } else {
        send_one(to, {i, kTableMargin + column}, x);
      }
    }
  }
}

/// Memory for a tile's sums.
template <class T>
void make_room(const job::TableParts& table, const ScoreTile<T>& tile, const TableBuffers<T>& s, const SumsTo<T>& to) {
  const std::int64_t queries = tile.rows->tile->count;
  if (table.way == job::TableWay::whole) {
    grow(s.tags->sums, columns_of(table.band, tile), [&](const ColumnRange& columns) {
      const ColumnRange places = places_of(table.band, columns);
      clear_rows(RowsOf<T>{s.sums.data + places.first, s.sums.stride}, queries, places.end - places.first);
    });
  }
  if (table.way == job::TableWay::sliding && tile.regular) {
    const PanelRange range = panels_of(table.band, tile);
    for (std::int64_t panel = range.first; panel <= range.last; ++panel) place_panel(table, queries, s, to, panel);
  }
}

/// sums += what belongs to scores (0 where masked). `to` is used where it slides.
template <class T>
void take_sums(const job::TableParts& table, const ScoreTile<T>& tile, const TableBuffers<T>& s, const SumsTo<T>& to) {
  make_room(table, tile, s, to);
  if (!tile.regular || table.way == job::TableWay::indexed) return take_scores(table, tile, s, to);
  const std::int64_t mask = table.way == job::TableWay::sliding ? kRingMask : -1;
  const T* scores = tile.scores;
  T* places = s.sums.data;
  if (is_far(table.band, tile)) {
    const std::int64_t place = place_of(table.band, -tile.distance) & mask;
    for (std::int64_t i = 0; i < tile.rows->tile->count; ++i, scores += job::kKeyTile, places += s.sums.stride) {
      add_folded_row(scores, places + place);
    }
    return;
  }
  for (std::int64_t i = 0; i < tile.rows->tile->count; ++i, scores += job::kKeyTile, places += s.sums.stride) {
    add_tile_row(scores, places + (place_of(table.band, -tile.distance - i) & mask));
  }
}

template <class T>
void rescale_sums(const job::TableParts& table, std::int64_t queries, const T* factors, const TableBuffers<T>& s) {
  const bool indexed = table.way == job::TableWay::indexed;
  const RowsOf<T>& rows = indexed ? s.packed_sums : s.sums;
  ColumnRange range = {0, rows.stride};
  if (table.way == job::TableWay::whole) range = places_of(table.band, s.tags->sums);
  for (std::int64_t i = 0; i < queries; ++i) {
    if (factors[i] == 1) continue;
    const Reg<T> factor = set(factors[i]);
    T* const row = rows.data + i * rows.stride;
    for (std::int64_t c = range.first; c < range.end; c += lanes<T>) store(mul(load(row + c), factor), row + c);
  }
}

/// Whole: margins to the columns whose copies they are; columns to packed rows where there are buckets.
template <class T>
SumBlock<T> fold_sums(const job::TableBand& band, std::int64_t queries, const TableBuffers<T>& s) {
  const ColumnRange columns = {s.tags->sums.first, std::min(s.tags->sums.end, band.count)};
  const ColumnRange rows = band.bucketed ? packed_rows_of(band, columns) : columns;
  for (std::int64_t i = 0; i < queries; ++i) {
    T* const row = s.sums.data + i * s.sums.stride + kTableMargin;
    if (columns.first == 0) row[0] += sum_tile_row(row - kTableMargin);
    if (columns.end == band.count) row[band.count - 1] += sum_tile_row(row + band.count);
    if (!band.bucketed) continue;
    T* const packed = s.packed_sums.data + i * s.packed_sums.stride;
    std::fill_n(packed + rows.first, rows.end - rows.first, T{0});
    for (std::int64_t c = columns.first; c < columns.end; ++c) packed[band.rows[c]] += row[c];
  }
  const RowsOf<T>& from = band.bucketed ? s.packed_sums : s.sums;
  return {{from.data + (band.bucketed ? 0 : kTableMargin) + rows.first, from.stride}, queries, rows.first, rows.end - rows.first};
}

/// After the last tile of keys.
template <class T>
void finish_sums(const job::TableParts& table, std::int64_t queries, const TableBuffers<T>& s, const SumsTo<T>& to) {
  switch (table.way) {
    case job::TableWay::whole:
      if (s.tags->sums.first < s.tags->sums.end) send_sums(to, fold_sums(table.band, queries, s));
      return;
    case job::TableWay::sliding:
      for (std::int64_t part = 0; part < kRingPanels; ++part) send_panel(table, queries, s, to, part);
      return;
    case job::TableWay::indexed:
      return send_sums(to, SumBlock<T>{{s.packed_sums.data, s.packed_sums.stride}, queries, 0, table.band.packed_rows});
  }
}
