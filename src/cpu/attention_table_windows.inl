// SPDX-License-Identifier: Apache-2.0
// Products of a tile of queries and a table whose row a distance chooses, added to scores. Distances count by key - query, so that a row
// of scores reads kKeyTile neighbours: no gathers.
//
// Places of a row: kKeyTile copies of column 0, the columns of the band, kKeyTile copies of the last. A row of scores whose first distance
// is outside the band begins in a margin, so that no row needs a test. `whole` has every place, and makes columns when a tile first needs
// them; `sliding` has four panels of kKeyTile places in a ring (place p at p mod 4 kKeyTile), and the first one again behind the last: a
// row of scores never wraps.

constexpr std::int64_t kTableMargin = job::kKeyTile;
constexpr std::int64_t kRingPanels = 4;
constexpr std::int64_t kRingMask = kRingPanels * job::kKeyTile - 1;

/// Some rows of T.
template <class T>
struct RowsOf {
  T* data;
  std::int64_t stride;
};

/// Columns or packed rows, from and to multiples of kPadding.
struct ColumnRange {
  std::int64_t first;
  std::int64_t end;
};

/// What lies in the scratch of a term, beside the numbers.
struct TableTags {
  ColumnRange products;                      // whole: made so far
  ColumnRange packed_products;               // whole, with buckets
  ColumnRange sums;                          // whole: touched so far
  std::int64_t product_panels[kRingPanels];  // sliding: the panel in each part of the ring; -1: none
  std::int64_t sum_panels[kRingPanels];
};
static_assert(sizeof(TableTags) <= job::kTableTags * sizeof(float));

/// A term's buffers in its scratch.
template <class T>
struct TableBuffers {
  RowsOf<T> products;         // by place
  RowsOf<T> packed_products;  // by packed row, where there are buckets
  RowsOf<T> sums;
  RowsOf<T> packed_sums;
  TableTags* tags;
};

template <class T>
TableBuffers<T> buffers_of(const job::TableParts& table, T* scratch) {
  const job::TableLayout& at = table.layout;
  return {.products = {scratch + at.products, at.stride},
          .packed_products = {scratch + at.packed_products, at.packed_stride},
          .sums = {scratch + at.sums, at.stride},
          .packed_sums = {scratch + at.packed_sums, at.packed_stride},
          .tags = reinterpret_cast<TableTags*>(scratch + at.tags)};
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
/// The columns that a tile reads, those of what pads its rows included.
template <class T>
ColumnRange columns_of(const job::TableBand& band, const ScoreTile<T>& tile) {
  const std::int64_t last = tile.regular ? job::kKeyTile - 1 - tile.distance : -tile.min_distance;
  return {column_of(band, -tile.max_distance), column_of(band, last) + 1};
}
/// The same as packed rows, for buckets.
inline ColumnRange packed_rows_of(const job::TableBand& band, const ColumnRange& columns) {
  const std::int32_t* const end = band.rows + std::min(columns.end, band.count);
  const auto [least, most] = std::minmax_element(band.rows + columns.first, end);
  return {*least, *most + 1};
}
/// The first and the last panel of places that a regular tile touches.
struct PanelRange {
  std::int64_t first;
  std::int64_t last;
};
template <class T>
PanelRange panels_of(const job::TableBand& band, const ScoreTile<T>& tile) {
  const std::int64_t last_row = -tile.distance - (tile.rows->tile->count - 1);
  return {place_of(band, last_row) / job::kKeyTile, (place_of(band, -tile.distance) + job::kKeyTile - 1) / job::kKeyTile};
}

/// Makes the range hold `wanted`; make(part) for each part that it grows by. It stays one piece: neighbouring tiles ask for neighbours.
template <class Make>
void grow(ColumnRange& range, ColumnRange wanted, const Make& make) {
  wanted = {wanted.first / kPadding * kPadding, padded(wanted.end)};
  if (range.first == range.end) {
    range = wanted;
    return make(wanted);
  }
  if (wanted.first < range.first) {
    make(ColumnRange{wanted.first, range.first});
    range.first = wanted.first;
  }
  if (wanted.end > range.end) {
    make(ColumnRange{range.end, wanted.end});
    range.end = wanted.end;
  }
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
template <class T>
HWY_INLINE void set_tile_row(T value, T* to) {
  const Reg<T> x = set(value);
  HWY_UNROLL(8)
  for (int j = 0; j < job::kKeyTile; j += lanes<T>) store(x, to + j);
}

// ---- Making them ----

/// Features of the tile's queries, times some columns of the panels.
template <class T>
void multiply_columns(const job::TableParts& table, const RowTile<T>& tile, const RowsOf<const T>& features, const ColumnRange& columns,
                      const RowsOf<T>& to) {
  const T* const panels = table.panels.of<T>(tile.batch, tile.head);
  for (std::int64_t first = columns.first; first < columns.end;) {
    const std::int64_t skipped = first % job::kKeyTile;
    const std::int64_t count = std::min(job::kKeyTile - skipped, columns.end - first);
    gemm(Gemm<T>{.m = tile.tile->count,
                 .n = count,
                 .k = table.width,
                 .a = features.data,
                 .a_row = features.stride,
                 .a_k = 1,
                 .b = panels + (first - skipped) * table.width + skipped,
                 .b_row = job::kKeyTile,
                 .c = to.data + first,
                 .c_row = to.stride});
    first += count;
  }
}

/// Whole: some columns, and the margins that they fill.
template <class T>
void make_columns(const job::TableParts& table, const RowTile<T>& tile, const RowsOf<const T>& features, const TableBuffers<T>& s,
                  const ColumnRange& columns) {
  const job::TableBand& band = table.band;
  const RowsOf<T> to = {s.products.data + kTableMargin, s.products.stride};
  if (band.bucketed) {
    grow(s.tags->packed_products, packed_rows_of(band, columns),
         [&](const ColumnRange& rows) { multiply_columns(table, tile, features, rows, s.packed_products); });
  } else {
    multiply_columns(table, tile, features, columns, to);
  }
  const std::int64_t end = std::min(columns.end, band.count);
  for (std::int64_t i = 0; i < tile.tile->count; ++i) {
    T* const row = to.data + i * to.stride;
    const T* const packed = s.packed_products.data + i * s.packed_products.stride;
    for (std::int64_t c = columns.first; band.bucketed && c < end; ++c) row[c] = packed[band.rows[c]];
    if (columns.first == 0) set_tile_row(row[0], row - kTableMargin);
    if (end == band.count) set_tile_row(row[end - 1], row + end);
  }
}

/// Sliding: one panel, where it is not yet.
template <class T>
void make_panel(const job::TableParts& table, const RowTile<T>& tile, const RowsOf<const T>& features, const TableBuffers<T>& s,
                std::int64_t panel) {
  const std::int64_t part = panel % kRingPanels;
  if (s.tags->product_panels[part] == panel) return;
  s.tags->product_panels[part] = panel;
  const std::int64_t first = panel * job::kKeyTile;
  T* const to = s.products.data + part * job::kKeyTile;
  multiply_columns(table, tile, features, {first, first + job::kKeyTile}, {to - first, s.products.stride});
  if (part != 0) return;
  for (std::int64_t i = 0; i < tile.tile->count; ++i) {
    T* const row = to + i * s.products.stride;
    std::copy_n(row, job::kKeyTile, row + kRingPanels * job::kKeyTile);
  }
}

/// Before the first tile of keys.
template <class T>
void begin_products(const job::TableParts& table, const RowTile<T>& tile, const RowsOf<const T>& features, const TableBuffers<T>& s) {
  s.tags->products = s.tags->packed_products = {0, 0};
  std::fill_n(s.tags->product_panels, kRingPanels, -1);
  if (table.way == job::TableWay::indexed) {
    multiply_columns(table, tile, features, {0, padded(table.band.packed_rows)}, s.packed_products);
  }
}

// ---- Adding them ----

struct TableCell {
  std::int64_t query;
  std::int64_t column;
};
/// The product of a query and a column, however the term keeps it.
template <class T>
T product_at(const job::TableParts& table, const T* panels, const T* features, const TableBuffers<T>& s, TableCell at) {
  if (table.way == job::TableWay::whole) return s.products.data[at.query * s.products.stride + kTableMargin + at.column];
  if (table.way == job::TableWay::indexed) return s.packed_products.data[at.query * s.packed_products.stride + table.band.rows[at.column]];
  const std::int64_t place = at.column + kTableMargin;
  const T* const column = panels + place / job::kKeyTile * table.width * job::kKeyTile + place % job::kKeyTile;
  T sum = 0;
  for (std::int64_t d = 0; d < table.width; ++d) sum += features[d] * column[d * job::kKeyTile];
  return sum;
}

/// Score by score.
template <class T>
void add_product_scores(const job::TableParts& table, const ScoreTile<T>& tile, const RowsOf<const T>& features, const TableBuffers<T>& s) {
  const T* const panels = table.panels.of<T>(tile.rows->batch, tile.rows->head);
  for (std::int64_t i = 0; i < tile.rows->tile->count; ++i) {
    for (std::int64_t j = 0; j < tile.keys->count; ++j) {
      const std::int64_t column = column_of(table.band, tile.key_positions[j] - tile.rows->positions[i]);
      tile.scores[i * job::kKeyTile + j] += product_at(table, panels, features.data + i * features.stride, s, {i, column});
    }
  }
}

/// scores += products.
template <class T>
void add_products(const job::TableParts& table, const ScoreTile<T>& tile, const RowsOf<const T>& features, const TableBuffers<T>& s) {
  const job::TableBand& band = table.band;
  if (table.way == job::TableWay::whole) {
    grow(s.tags->products, columns_of(band, tile),
         [&](const ColumnRange& columns) { make_columns(table, *tile.rows, features, s, columns); });
  }
  if (!tile.regular || table.way == job::TableWay::indexed) return add_product_scores(table, tile, features, s);
  const bool sliding = table.way == job::TableWay::sliding;
  if (sliding) {
    const PanelRange range = panels_of(band, tile);
    for (std::int64_t panel = range.first; panel <= range.last; ++panel) make_panel(table, *tile.rows, features, s, panel);
  }
  T* scores = tile.scores;
  const T* places = s.products.data;
  const std::int64_t mask = sliding ? kRingMask : -1;
  if (is_far(band, tile)) {
    const std::int64_t place = place_of(band, -tile.distance) & mask;
    for (std::int64_t i = 0; i < tile.rows->tile->count; ++i, scores += job::kKeyTile, places += s.products.stride) {
      add_to_tile_row(places[place], scores);
    }
    return;
  }
  for (std::int64_t i = 0; i < tile.rows->tile->count; ++i, scores += job::kKeyTile, places += s.products.stride) {
    add_tile_row(places + (place_of(band, -tile.distance - i) & mask), scores);
  }
}
