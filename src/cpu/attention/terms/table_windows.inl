// SPDX-License-Identifier: Apache-2.0
// Products of a tile of queries and a table whose row a distance chooses, added to scores. Distances count by key - query, so that a row
// of scores reads kKeyTile neighbours: no gathers. Tiles beyond the band read one product per query.
//
// whole: every column of the band has a place; columns are made when a tile first needs them.
// sliding: places are kTableMargin copies of column 0, the columns, copies of the last. Four panels of kKeyTile places lie in a ring (place
// p at p mod 4 kKeyTile), and the first one again behind the last, so that a row of scores never wraps.

using attend::kTableMargin;
static_assert(kTableMargin == attend::kKeyTile && attend::kTableLanes >= kPadding);
constexpr std::int64_t kRingPanels = 4;
constexpr std::int64_t kRingMask = kRingPanels * attend::kKeyTile - 1;

/// Some rows of T.
template <class T>
struct RowsOf {
  T* data;
  std::int64_t stride;

  T* at(std::int64_t row) const { return data + row * stride; }
};

/// Columns, from and to multiples of kPadding.
struct ColumnRange {
  std::int64_t first;
  std::int64_t end;
};

/// Rows of a tile.
struct TileRowRange {
  std::int16_t first;
  std::int16_t end;
};

/// The end of the band that a tile lies beyond: every score of it reads one column.
enum TableEnd : std::int32_t { low_end = 0, high_end = 1, no_end = 2 };

/// What lies in the scratch of a term, beside the numbers.
struct TableTags {
  ColumnRange products;  // whole: columns made so far
  ColumnRange sums;      // whole: columns touched so far
  std::int32_t has_end_products[2];
  std::int32_t has_end_sums[2];
  std::int64_t product_panels[kRingPanels];  // sliding: the panel in each part of the ring; -1: none
  std::int64_t sum_panels[kRingPanels];
  TileRowRange product_rows[kRingPanels];  // sliding: the rows that are made of each
};
static_assert(sizeof(TableTags) <= attend::kTableTags * sizeof(float));

/// A term's buffers in its scratch, for the queries of a tile.
template <class T>
struct TableBuffers {
  RowsOf<T> products;  // by column (whole) or by place in the ring
  T* end_products;     // (2, kQueryTile): beyond either end
  RowsOf<T> sums;
  RowsOf<T> end_sums;  // (.., 2, kTableLanes): beyond either end, spread over lanes
  T* pending;          // (3, kQueryTile): what the sums beyond either end, and those of columns, are yet to be multiplied by
  TableTags* tags;
};

template <class T>
TableBuffers<T> buffers_of(const attend::TableParts& table, T* scratch) {
  const attend::TableBuffers& at = table.layout;
  return {.products = {scratch + at.products, at.stride},
          .end_products = scratch + at.end_products,
          .sums = {scratch + at.sums, at.stride},
          .end_sums = {scratch + at.end_sums, 2 * attend::kTableLanes},
          .pending = scratch + at.pending,
          .tags = reinterpret_cast<TableTags*>(scratch + at.tags)};
}

inline std::int64_t column_of(const attend::TableBand& band, std::int64_t ahead) {
  return std::clamp<std::int64_t>(ahead - band.first, 0, band.count - 1);
}
/// The column that the first score of a row reads, as if the band had no ends, but no farther out than a row of scores.
inline std::int64_t start_of(const attend::TableBand& band, std::int64_t ahead) {
  return std::clamp(ahead - band.first, -attend::kKeyTile, band.count - 1);
}
template <class T>
TableEnd end_of(const attend::TableBand& band, const ScoreTile<T>& tile) {
  if (-tile.min_distance <= band.first) return low_end;
  return -tile.max_distance >= band.first + band.count - 1 ? high_end : no_end;
}
/// Every score of the tile reads the same column.
template <class T>
bool is_far(const attend::TableBand& band, const ScoreTile<T>& tile) {
  return end_of(band, tile) != no_end;
}
inline std::int64_t end_column(const attend::TableBand& band, TableEnd end) { return end == low_end ? 0 : band.count - 1; }

/// The columns that a tile reads, those of what pads its rows included.
template <class T>
ColumnRange columns_of(const attend::TableBand& band, const ScoreTile<T>& tile) {
  const std::int64_t last = tile.regular ? attend::kKeyTile - 1 - tile.distance : -tile.min_distance;
  return {column_of(band, -tile.max_distance), column_of(band, last) + 1};
}
/// The first and the last panel of places that a regular tile touches.
struct PanelRange {
  std::int64_t first;
  std::int64_t last;
};
template <class T>
PanelRange panels_of(const attend::TableBand& band, const ScoreTile<T>& tile) {
  const std::int64_t last_row = -tile.distance - (tile.rows->tile->count - 1);
  return {(start_of(band, last_row) + kTableMargin) / attend::kKeyTile,
          (start_of(band, -tile.distance) + kTableMargin + attend::kKeyTile - 1) / attend::kKeyTile};
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

// ---- Making them ----

/// What meets the table: features of the tile's queries.
template <class T>
struct TableMeeting {
  const attend::TableParts* table;
  const RowTile<T>* tile;
  RowsOf<const T> features;
  TableBuffers<T> buffers;
};

/// Features of some rows times some columns of the panels.
template <class T>
void multiply_columns(const TableMeeting<T>& m, TileRowRange rows, const ColumnRange& columns, const RowsOf<T>& to) {
  const std::int64_t width = m.table->width;
  const T* const panels = m.table->panels.template of<T>(m.tile->batch, m.tile->head);
  for (std::int64_t first = columns.first; first < columns.end;) {
    const std::int64_t skipped = first % attend::kKeyTile;
    const std::int64_t count = std::min(attend::kKeyTile - skipped, columns.end - first);
    gemm(Gemm<T>{.m = rows.end - rows.first,
                 .n = count,
                 .k = width,
                 .a = m.features.at(rows.first),
                 .a_row = m.features.stride,
                 .a_k = 1,
                 .b = panels + (first - skipped) * width + skipped,
                 .b_row = attend::kKeyTile,
                 .c = to.at(rows.first) + first,
                 .c_row = to.stride});
    first += count;
  }
}

template <class T>
TileRowRange all_rows(const TableMeeting<T>& m) {
  return {0, static_cast<std::int16_t>(m.tile->tile->count)};
}

/// Whole: columns, where they are not yet.
template <class T>
void make_columns(const TableMeeting<T>& m, const ColumnRange& wanted) {
  grow(m.buffers.tags->products, wanted, [&](const ColumnRange& part) { multiply_columns(m, all_rows(m), part, m.buffers.products); });
}

/// Sliding: some rows of one panel.
template <class T>
void multiply_panel(const TableMeeting<T>& m, std::int64_t panel, TileRowRange rows) {
  const TableBuffers<T>& s = m.buffers;
  const std::int64_t part = panel % kRingPanels;
  const std::int64_t first = panel * attend::kKeyTile;
  const RowsOf<T> to = {s.products.data + part * attend::kKeyTile, s.products.stride};
  multiply_columns(m, rows, {first, first + attend::kKeyTile}, {to.data - first, to.stride});
  for (std::int64_t i = rows.first; i < rows.end && part == 0; ++i) {
    std::copy_n(to.at(i), attend::kKeyTile, to.at(i) + kRingPanels * attend::kKeyTile);
  }
}

/// The same, those that are not yet. They stay one piece: neighbouring tiles ask for neighbours.
template <class T>
void make_panel(const TableMeeting<T>& m, std::int64_t panel, TileRowRange wanted) {
  TableTags& tags = *m.buffers.tags;
  const std::int64_t part = panel % kRingPanels;
  TileRowRange& made = tags.product_rows[part];
  if (tags.product_panels[part] != panel) {
    tags.product_panels[part] = panel;
    made = wanted;
    return multiply_panel(m, panel, wanted);
  }
  if (wanted.first < made.first) {
    multiply_panel(m, panel, {wanted.first, made.first});
    made.first = wanted.first;
  }
  if (wanted.end > made.end) {
    multiply_panel(m, panel, {made.end, wanted.end});
    made.end = wanted.end;
  }
}

/// The rows of a regular tile that read a panel, in steps that fill blocks of the product; all where some lie beyond an end of the band.
template <class T>
TileRowRange rows_in_panel(const TableMeeting<T>& m, const ScoreTile<T>& tile, std::int64_t panel) {
  constexpr std::int64_t kStep = 24;
  const attend::TableBand& band = m.table->band;
  const std::int64_t count = m.tile->tile->count;
  const std::int64_t start = -tile.distance - band.first;
  if (start_of(band, -tile.distance) != start || start_of(band, -tile.distance - (count - 1)) != start - (count - 1)) return all_rows(m);
  const std::int64_t ahead = start + kTableMargin - panel * attend::kKeyTile;  // of row 0's first place, from the panel's first
  const std::int64_t first = std::clamp<std::int64_t>(ahead - (attend::kKeyTile - 1), 0, count - 1) / kStep * kStep;
  const std::int64_t end = std::clamp<std::int64_t>((ahead + attend::kKeyTile + kStep - 1) / kStep * kStep, 1, count);
  return {static_cast<std::int16_t>(first), static_cast<std::int16_t>(std::max(end, first + 1))};
}
template <class T>
void make_panels(const TableMeeting<T>& m, const ScoreTile<T>& tile) {
  const PanelRange range = panels_of(m.table->band, tile);
  for (std::int64_t panel = range.first; panel <= range.last; ++panel) make_panel(m, panel, rows_in_panel(m, tile, panel));
}

/// Beyond an end: one product per query, side by side.
template <class T>
const T* end_products(const TableMeeting<T>& m, TableEnd end) {
  const TableBuffers<T>& s = m.buffers;
  const attend::TableBand& band = m.table->band;
  T* const out = s.end_products + end * attend::kQueryTile;
  if (s.tags->has_end_products[end] != 0) return out;
  s.tags->has_end_products[end] = 1;
  const std::int64_t column = end_column(band, end);
  std::int64_t at = column;
  if (m.table->way == attend::TableWay::sliding) {
    const std::int64_t place = column + kTableMargin;
    make_panel(m, place / attend::kKeyTile, all_rows(m));
    at = place & kRingMask;
  } else {
    make_columns(m, {column, column + 1});
  }
  for (std::int64_t i = 0; i < m.tile->tile->count; ++i) out[i] = s.products.at(i)[at];
  return out;
}

/// Before the first tile of keys.
template <class T>
void begin_products(const TableBuffers<T>& s) {
  s.tags->products = {0, 0};
  s.tags->has_end_products[0] = s.tags->has_end_products[1] = 0;
  std::fill_n(s.tags->product_panels, kRingPanels, -1);
}

// ---- Adding them ----

template <class T>
HWY_INLINE void add_tile_row(const T* from, T* to) {
  HWY_UNROLL(8)
  for (int j = 0; j < attend::kKeyTile; j += lanes<T>) store(add(load(to + j), load(from + j)), to + j);
}
template <class T>
HWY_INLINE void add_to_tile_row(T value, T* to) {
  const Reg<T> x = set(value);
  HWY_UNROLL(8)
  for (int j = 0; j < attend::kKeyTile; j += lanes<T>) store(add(load(to + j), x), to + j);
}
/// A row of scores that begins before column 0 or ends after the last one. What lies there is read, but not used. lane: 0, 1, ..., made
/// once for many rows, because making it is slow.
template <class T>
HWY_INLINE void add_clipped_row(const T* columns, std::int64_t start, std::int64_t count, Reg<T> lane, T* to) {
  const Reg<T> before = set(static_cast<T>(-start));
  const Reg<T> last = set(static_cast<T>(count - 1 - start));
  HWY_UNROLL(8)
  for (int j = 0; j < attend::kKeyTile; j += lanes<T>) {
    const Reg<T> at = add(lane, set(static_cast<T>(j)));
    const Reg<T> high = if_then_else(less(last, at), set(columns[count - 1]), load(columns + start + j));
    store(add(load(to + j), if_then_else(less(at, before), set(columns[0]), high)), to + j);
  }
}

/// Score by score.
template <class T>
void add_product_scores(const TableMeeting<T>& m, const ScoreTile<T>& tile) {
  const attend::TableBand& band = m.table->band;
  const bool whole = m.table->way == attend::TableWay::whole;
  if (whole) make_columns(m, columns_of(band, tile));
  const T* const panels = m.table->panels.template of<T>(m.tile->batch, m.tile->head);
  for (std::int64_t i = 0; i < m.tile->tile->count; ++i) {
    for (std::int64_t j = 0; j < tile.keys->count; ++j) {
      const std::int64_t column = column_of(band, tile.key_positions[j] - tile.rows->positions[i]);
      T& score = tile.scores[i * attend::kKeyTile + j];
      if (whole) {
        score += m.buffers.products.at(i)[column];
        continue;
      }
      const std::int64_t place = column + kTableMargin;
      const T* const from = panels + place / attend::kKeyTile * m.table->width * attend::kKeyTile + place % attend::kKeyTile;
      T sum = 0;
      for (std::int64_t d = 0; d < m.table->width; ++d) sum += m.features.at(i)[d] * from[d * attend::kKeyTile];
      score += sum;
    }
  }
}

template <class T>
void add_whole_products(const TableMeeting<T>& m, const ScoreTile<T>& tile) {
  const attend::TableBand& band = m.table->band;
  make_columns(m, columns_of(band, tile));
  const Reg<T> lane = iota(T{0});
  for (std::int64_t i = 0; i < m.tile->tile->count; ++i) {
    const std::int64_t start = start_of(band, -tile.distance - i);
    const T* const columns = m.buffers.products.at(i);
    T* const scores = tile.scores + i * attend::kKeyTile;
    if (start >= 0 && start + attend::kKeyTile <= band.count) {
      add_tile_row(columns + start, scores);
    } else {
      add_clipped_row(columns, start, band.count, lane, scores);
    }
  }
}

template <class T>
void add_sliding_products(const TableMeeting<T>& m, const ScoreTile<T>& tile) {
  const attend::TableBand& band = m.table->band;
  make_panels(m, tile);
  for (std::int64_t i = 0; i < m.tile->tile->count; ++i) {
    const std::int64_t place = start_of(band, -tile.distance - i) + kTableMargin;
    add_tile_row(m.buffers.products.at(i) + (place & kRingMask), tile.scores + i * attend::kKeyTile);
  }
}

/// The same, where the products lie. Rows in a ring that wraps begin one place before each other on both sides of the wrap.
template <class T>
AddedRows<T> added_products(const TableMeeting<T>& m, const ScoreTile<T>& tile) {
  const attend::TableBand& band = m.table->band;
  if (!tile.regular || is_far(band, tile) || m.table->way == attend::TableWay::whole) return {};
  const std::int64_t rows = m.tile->tile->count;
  const std::int64_t first = start_of(band, -tile.distance);
  if (start_of(band, -tile.distance - (rows - 1)) != first - (rows - 1)) return {};  // some rows lie beyond an end
  make_panels(m, tile);
  const std::int64_t place = (first + kTableMargin) & kRingMask;
  const RowsOf<T>& products = m.buffers.products;
  return {.data = products.data + place, .step = products.stride - 1, .wrap = place + 1, .wrapped = products.data + place + kRingMask + 1};
}

/// scores += products.
template <class T>
void add_products(const TableMeeting<T>& m, const ScoreTile<T>& tile) {
  if (!tile.regular) return add_product_scores(m, tile);
  const TableEnd end = end_of(m.table->band, tile);
  if (end == no_end) return m.table->way == attend::TableWay::whole ? add_whole_products(m, tile) : add_sliding_products(m, tile);
  const T* const products = end_products(m, end);
  for (std::int64_t i = 0; i < m.tile->tile->count; ++i) add_to_tile_row(products[i], tile.scores + i * attend::kKeyTile);
}
