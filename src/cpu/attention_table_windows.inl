// SPDX-License-Identifier: Apache-2.0
// Products of a tile of queries and a table whose row a distance chooses, added to scores; and sums of what belongs to scores, by row of
// the table. Distances count by key - query, so that a row of scores reads, and adds to, kKeyTile neighbours: no gathers.
//
// Places of a row: kKeyTile copies of column 0, the columns of the band, kKeyTile copies of the last. A row of scores whose first distance
// is outside the band begins in a margin, so that no row needs a test. `whole` keeps every place; `sliding` keeps four panels of kKeyTile
// places in a ring (place p at p mod 4 kKeyTile), and the first one again behind the last: a row of scores never wraps.

constexpr std::int64_t kTableMargin = job::kKeyTile;
constexpr std::int64_t kRingPanels = 4;
constexpr std::int64_t kRingMask = kRingPanels * job::kKeyTile - 1;

/// Some rows of T.
template <class T>
struct RowsOf {
  T* data;
  std::int64_t stride;
};

/// A term's buffers in its scratch.
template <class T>
struct TableBuffers {
  RowsOf<T> products;         // by place
  RowsOf<T> packed_products;  // by packed row, where there are buckets
  RowsOf<T> sums;
  RowsOf<T> packed_sums;
  std::int64_t* product_tags;  // sliding: the panel in each part of the ring; -1: none
  std::int64_t* sum_tags;
};

template <class T>
TableBuffers<T> buffers_of(const job::TableParts& table, T* scratch) {
  const job::TableLayout& at = table.layout;
  auto* const tags = reinterpret_cast<std::int64_t*>(scratch + at.tags);
  return {{scratch + at.products, at.stride},
          {scratch + at.packed_products, at.packed_stride},
          {scratch + at.sums, at.stride},
          {scratch + at.packed_sums, at.packed_stride},
          tags,
          tags + kRingPanels};
}

/// Where the row of scores begins whose first key - query is `ahead`.
inline std::int64_t place_of(const job::TableBand& band, std::int64_t ahead) {
  return std::clamp(ahead - band.first, -kTableMargin, band.count - 1) + kTableMargin;
}
inline std::int64_t column_of(const job::TableBand& band, std::int64_t ahead) {
  return std::clamp<std::int64_t>(ahead - band.first, 0, band.count - 1);
}
/// Every score of the tile reads the same column.
template <class T>
bool is_far(const job::TableBand& band, const ScoreTile<T>& tile) {
  return -tile.min_distance <= band.first || -tile.max_distance >= band.first + band.count - 1;
}

template <class T>
HWY_INLINE void add_tile_row(const T* from, T* to) {
  HWY_UNROLL(8)
  for (int j = 0; j < job::kKeyTile; j += lanes<T>) store(add(load(to + j), load(from + j)), to + j);
}
template <class T>
HWY_INLINE void add_to_tile_row(T value, T* to) {
  const Reg<T> x = set(value);
  HWY_UNROLL(8)
  for (int j = 0; j < job::kKeyTile; j += lanes<T>) store(add(load(to + j), x), to + j);
}
/// The sum of a row of scores, spread over a register of `to`, all of whose places are of one column.
template <class T>
HWY_INLINE void add_folded_row(const T* from, T* to) {
  Reg<T> sum = load(from);
  HWY_UNROLL(8)
  for (int j = lanes<T>; j < job::kKeyTile; j += lanes<T>) sum = add(sum, load(from + j));
  store(add(load(to), sum), to);
}
template <class T>
void clear_rows(const RowsOf<T>& rows, std::int64_t count, std::int64_t columns) {
  for (std::int64_t i = 0; i < count; ++i) std::fill_n(rows.data + i * rows.stride, columns, T{0});
}

// ---- Products ----

/// rows (m, width) times `columns` columns of the panels.
template <class T>
void multiply_panels(const job::TableParts& table, const T* panels, const RowsOf<const T>& rows, std::int64_t m, const RowsOf<T>& to) {
  const std::int64_t columns = table.band.packed_rows;
  for (std::int64_t first = 0; first < columns; first += job::kKeyTile) {
    gemm(Gemm<T>{.m = m,
                 .n = std::min(job::kKeyTile, padded(columns - first)),
                 .k = table.width,
                 .a = rows.data,
                 .a_row = rows.stride,
                 .a_k = 1,
                 .b = panels + first * table.width,
                 .b_row = job::kKeyTile,
                 .c = to.data + first,
                 .c_row = to.stride});
  }
}

/// What a tile of queries needs before its first tile of keys.
template <class T>
void begin_products(const job::TableParts& table, const RowTile<T>& tile, const RowsOf<const T>& rows, const TableBuffers<T>& s) {
  const job::TableBand& band = table.band;
  const T* const panels = table.panels.of<T>(tile.batch, tile.head);
  const std::int64_t m = tile.tile->count;
  if (table.way == job::TableWay::sliding) return static_cast<void>(std::fill_n(s.product_tags, kRingPanels, -1));
  if (!band.bucketed) {
    multiply_panels(table, panels, rows, m, {s.products.data + kTableMargin, s.products.stride});
  } else {
    multiply_panels(table, panels, rows, m, s.packed_products);
    if (table.way == job::TableWay::indexed) return;
  }
  for (std::int64_t i = 0; i < m; ++i) {
    T* const places = s.products.data + i * s.products.stride;
    T* const columns = places + kTableMargin;
    if (band.bucketed) {
      const T* const packed = s.packed_products.data + i * s.packed_products.stride;
      for (std::int64_t c = 0; c < band.count; ++c) columns[c] = packed[band.rows[c]];
    }
    std::fill_n(places, kTableMargin, columns[0]);
    std::fill_n(columns + band.count, kTableMargin, columns[band.count - 1]);
  }
}

/// Sliding: products of one panel, where they are not yet.
template <class T>
void need_panel(const job::TableParts& table, const RowTile<T>& tile, const RowsOf<const T>& rows, const TableBuffers<T>& s,
                std::int64_t panel) {
  const std::int64_t part = panel % kRingPanels;
  if (s.product_tags[part] == panel) return;
  s.product_tags[part] = panel;
  const std::int64_t size = table.width * job::kKeyTile;
  T* const to = s.products.data + part * job::kKeyTile;
  gemm(Gemm<T>{.m = tile.tile->count,
               .n = job::kKeyTile,
               .k = table.width,
               .a = rows.data,
               .a_row = rows.stride,
               .a_k = 1,
               .b = table.panels.of<T>(tile.batch, tile.head) + panel * size,
               .b_row = job::kKeyTile,
               .c = to,
               .c_row = s.products.stride});
  if (part != 0) return;
  for (std::int64_t i = 0; i < tile.tile->count; ++i) {
    T* const row = to + i * s.products.stride;
    std::copy_n(row, job::kKeyTile, row + kRingPanels * job::kKeyTile);
  }
}

/// The first and the last panel that a regular tile touches.
struct PanelRange {
  std::int64_t first;
  std::int64_t last;
};
template <class T>
PanelRange panels_of(const job::TableBand& band, const ScoreTile<T>& tile) {
  const std::int64_t last_row = -tile.distance - (tile.rows->tile->count - 1);
  return {place_of(band, last_row) / job::kKeyTile, (place_of(band, -tile.distance) + job::kKeyTile - 1) / job::kKeyTile};
}

struct TableCell {
  std::int64_t query;
  std::int64_t column;
};
/// The product of a query and a column, however the term keeps it.
template <class T>
T product_at(const job::TableParts& table, const T* panels, const T* row, const TableBuffers<T>& s, TableCell at) {
  if (table.way == job::TableWay::whole) return s.products.data[at.query * s.products.stride + kTableMargin + at.column];
  if (table.way == job::TableWay::indexed) return s.packed_products.data[at.query * s.packed_products.stride + table.band.rows[at.column]];
  const std::int64_t place = at.column + kTableMargin;
  const T* const column = panels + place / job::kKeyTile * table.width * job::kKeyTile + place % job::kKeyTile;
  T sum = 0;
  for (std::int64_t d = 0; d < table.width; ++d) sum += row[d] * column[d * job::kKeyTile];
  return sum;
}

/// Score by score.
template <class T>
void add_product_scores(const job::TableParts& table, const ScoreTile<T>& tile, const RowsOf<const T>& rows, const TableBuffers<T>& s) {
  const T* const panels = table.panels.of<T>(tile.rows->batch, tile.rows->head);
  for (std::int64_t i = 0; i < tile.rows->tile->count; ++i) {
    for (std::int64_t j = 0; j < tile.keys->count; ++j) {
      const std::int64_t column = column_of(table.band, tile.key_positions[j] - tile.rows->positions[i]);
      tile.scores[i * job::kKeyTile + j] += product_at(table, panels, rows.data + i * rows.stride, s, {i, column});
    }
  }
}

/// scores += products.
template <class T>
void add_products(const job::TableParts& table, const ScoreTile<T>& tile, const RowsOf<const T>& rows, const TableBuffers<T>& s) {
  const job::TableBand& band = table.band;
  const std::int64_t m = tile.rows->tile->count;
  const bool sliding = table.way == job::TableWay::sliding;
  if (!tile.regular || table.way == job::TableWay::indexed) return add_product_scores(table, tile, rows, s);
  if (sliding) {
    const PanelRange range = panels_of(band, tile);
    for (std::int64_t panel = range.first; panel <= range.last; ++panel) need_panel(table, *tile.rows, rows, s, panel);
  }
  const bool far = is_far(band, tile);
  T* scores = tile.scores;
  const T* places = s.products.data;
  for (std::int64_t i = 0; i < m; ++i, scores += job::kKeyTile, places += s.products.stride) {
    const std::int64_t place = place_of(band, -tile.distance - i);
    const T* const from = places + (sliding ? place & kRingMask : place);
    if (far) {
      add_to_tile_row(*from, scores);
    } else {
      add_tile_row(from, scores);
    }
  }
}

// ---- Sums ----

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
void add_shift(const SumsTo<T>& to, const SumBlock<T>& block) {
  std::fill_n(to.column_sums, block.count, T{0});
  for (std::int64_t i = 0; i < block.queries; ++i) {
    const T* const row = block.sums.data + i * block.sums.stride;
    for (std::int64_t c = 0; c < block.count; ++c) to.column_sums[c] += row[c];
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

template <class T>
void begin_sums(const job::TableParts& table, std::int64_t queries, const TableBuffers<T>& s) {
  if (table.way == job::TableWay::sliding) return static_cast<void>(std::fill_n(s.sum_tags, kRingPanels, -1));
  if (table.way == job::TableWay::whole) return clear_rows(s.sums, queries, table.band.count + 2 * kTableMargin);
  clear_rows(s.packed_sums, queries, table.band.packed_rows);
}

/// Sliding: the panel leaves the ring.
template <class T>
void send_panel(const job::TableParts& table, std::int64_t queries, const TableBuffers<T>& s, const SumsTo<T>& to, std::int64_t part) {
  const std::int64_t panel = s.sum_tags[part];
  if (panel < 0) return;
  T* const sums = s.sums.data + part * job::kKeyTile;
  for (std::int64_t i = 0; i < queries && part == 0; ++i) {
    T* const row = sums + i * s.sums.stride;
    add_tile_row(row + kRingPanels * job::kKeyTile, row);
  }
  const std::int64_t first = panel * job::kKeyTile;
  send_sums(to, SumBlock<T>{{sums, s.sums.stride}, queries, first, std::min(job::kKeyTile, table.row_count - first)});
}
template <class T>
void take_panel(const job::TableParts& table, std::int64_t queries, const TableBuffers<T>& s, const SumsTo<T>& to, std::int64_t panel) {
  const std::int64_t part = panel % kRingPanels;
  if (s.sum_tags[part] == panel) return;
  send_panel(table, queries, s, to, part);
  s.sum_tags[part] = panel;
  clear_rows(RowsOf<T>{s.sums.data + part * job::kKeyTile, s.sums.stride}, queries, job::kKeyTile);
  if (part == 0) clear_rows(RowsOf<T>{s.sums.data + kRingPanels * job::kKeyTile, s.sums.stride}, queries, job::kKeyTile);
}

/// One score's share, sent at once.
template <class T>
void send_one(const SumsTo<T>& to, std::int64_t i, std::int64_t row, T x) {
  const T* const table_row = to.rows + row * to.places;
  const T* const features = to.features.data + i * to.features.stride;
  T* const result = to.result.data + i * to.result.stride;
  T* const sums = to.table + row * to.places;
  for (std::int64_t d = 0; d < to.places; ++d) {
    if (to.result.data != nullptr) result[d] += x * table_row[d];
    if (to.table != nullptr) sums[d] += x * features[d];
    if (to.shift != nullptr) to.shift[d] += x * table_row[d];
  }
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
        send_one(to, i, kTableMargin + column, x);
      }
    }
  }
}

/// sums += what belongs to scores (0 where masked). `to` is used where it slides.
template <class T>
void take_sums(const job::TableParts& table, const ScoreTile<T>& tile, const TableBuffers<T>& s, const SumsTo<T>& to) {
  if (!tile.regular || table.way == job::TableWay::indexed) return take_scores(table, tile, s, to);
  const job::TableBand& band = table.band;
  const std::int64_t m = tile.rows->tile->count;
  const bool sliding = table.way == job::TableWay::sliding;
  if (sliding) {
    const PanelRange range = panels_of(band, tile);
    for (std::int64_t panel = range.first; panel <= range.last; ++panel) take_panel(table, m, s, to, panel);
  }
  const bool far = is_far(band, tile);
  const T* scores = tile.scores;
  T* places = s.sums.data;
  for (std::int64_t i = 0; i < m; ++i, scores += job::kKeyTile, places += s.sums.stride) {
    const std::int64_t place = place_of(band, -tile.distance - i);
    T* const sums = places + (sliding ? place & kRingMask : place);
    if (far) {
      add_folded_row(scores, sums);
    } else {
      add_tile_row(scores, sums);
    }
  }
}

template <class T>
void rescale_sums(const job::TableParts& table, std::int64_t queries, const T* factors, const TableBuffers<T>& s) {
  const bool indexed = table.way == job::TableWay::indexed;
  const RowsOf<T>& rows = indexed ? s.packed_sums : s.sums;
  for (std::int64_t i = 0; i < queries; ++i) {
    if (factors[i] == 1) continue;
    const Reg<T> factor = set(factors[i]);
    T* const row = rows.data + i * rows.stride;
    for (std::int64_t c = 0; c < rows.stride; c += lanes<T>) store(mul(load(row + c), factor), row + c);
  }
}

/// Margins to the columns whose copies they are; columns to packed rows where there are buckets.
template <class T>
void fold_sums(const job::TableBand& band, std::int64_t queries, const TableBuffers<T>& s) {
  for (std::int64_t i = 0; i < queries; ++i) {
    T* const places = s.sums.data + i * s.sums.stride;
    T* const columns = places + kTableMargin;
    for (std::int64_t c = 0; c < kTableMargin; ++c) columns[0] += places[c];
    for (std::int64_t c = 0; c < kTableMargin; ++c) columns[band.count - 1] += columns[band.count + c];
    if (!band.bucketed) continue;
    T* const packed = s.packed_sums.data + i * s.packed_sums.stride;
    std::fill_n(packed, band.packed_rows, T{0});
    for (std::int64_t c = 0; c < band.count; ++c) packed[band.rows[c]] += columns[c];
  }
}

/// After the last tile of keys.
template <class T>
void finish_sums(const job::TableParts& table, std::int64_t queries, const TableBuffers<T>& s, const SumsTo<T>& to) {
  if (table.way == job::TableWay::sliding) {
    for (std::int64_t part = 0; part < kRingPanels; ++part) send_panel(table, queries, s, to, part);
    return;
  }
  if (table.way == job::TableWay::whole) fold_sums(table.band, queries, s);
  const RowsOf<const T> sums = table.band.bucketed ? RowsOf<const T>{s.packed_sums.data, s.packed_sums.stride}
                                                   : RowsOf<const T>{s.sums.data + kTableMargin, s.sums.stride};
  send_sums(to, SumBlock<T>{sums, queries, 0, table.band.packed_rows});
}
