// SPDX-License-Identifier: Apache-2.0
// A key-side table (DeBERTa p2c): the products of a strip of keys with a window of distances, turned round as they are added to scores. The
// value of (row i, key j) lies at distance i - j + const, so that along a row of products it is a neighbour of (i + 1, j): read with a
// stride one short of the row's, the rows of products are columns of scores. Nothing gathers.

constexpr std::int64_t kKeyProductStride = attend::kKeyWindow + attend::kKeyStrip;
constexpr std::int64_t kKeyBuffer = attend::kKeyStrip * kKeyProductStride;  // a term's scratch is three of them

/// A strip of keys of a tile, and the window of distances that they have from its queries.
struct KeyStrip {
  std::int64_t first;    // column
  std::int64_t keys;     // real ones
  std::int64_t place;    // of the window, in the packed table
  std::int64_t columns;  // of the window, padded
};
template <class T>
KeyStrip key_strip(const attend::KeyTableJob& term, const ScoreTile<T>& tile, std::int64_t first) {
  const std::int64_t least = -(term.band.first + term.band.count - 1);  // distance of the band's first place
  const std::int64_t distance = tile.distance - first - (attend::kKeyStrip - 1);
  return {.first = first,
          .keys = std::min(attend::kKeyStrip, tile.keys->count - first),
          .place = std::clamp(distance - least, -attend::kKeyWindow, term.band.count - 1) + attend::kKeyWindow,
          .columns = padded(tile.rows->tile->count + attend::kKeyStrip - 1)};
}

template <class T>
const T* key_features(const attend::KeyTableJob& term, const ScoreTile<T>& tile) {
  const RowTile<T>& rows = *tile.rows;
  return static_cast<const T*>(term.features) + rows.batch * term.feature_strides[0] +
         rows.head / rows.job->shape.group() * term.feature_strides[1] + tile.keys->first * term.padded_width;
}
/// Of one end of the table with the tile's keys.
template <class T>
const T* far_products(const attend::KeyTableJob& term, const ScoreTile<T>& tile, std::int64_t end) {
  const RowTile<T>& rows = *tile.rows;
  const std::int64_t head = term.far_by_key_head ? rows.head / rows.job->shape.group() : rows.head;
  return static_cast<const T*>(term.far) + rows.batch * term.far_strides[0] + head * term.far_strides[1] +
         end * (rows.job->shape.keys + attend::kKeyTile) + tile.keys->first;
}
/// Where every score of a far tile reads: 0, the first place, 1, the last.
template <class T>
std::int64_t far_end(const attend::KeyTableJob& term, const ScoreTile<T>& tile) {
  return -tile.min_distance <= term.band.first ? 1 : 0;
}
/// The place of one score.
template <class T>
std::int64_t key_place(const attend::KeyTableJob& term, const ScoreTile<T>& tile, std::int64_t i, std::int64_t j) {
  const std::int64_t column = column_of(term.band, tile.key_positions[j] - tile.rows->positions[i]);
  return attend::kKeyWindow + term.band.count - 1 - column;
}

/// Lines of the packed table that a window has: first to first + count - 1.
struct KeyLines {
  std::int64_t first;
  std::int64_t count;
};
template <class T>
KeyLines lines_of(const attend::KeyTableJob& term, const KeyStrip& strip) {
  if (!term.ranked) return {strip.place, strip.columns};
  const auto* const ranks = static_cast<const PlaceOf<T>*>(term.ranks) + strip.place;
  return {ranks[0], ranks[strip.columns - 1] - ranks[0] + 1};
}
template <class T>
std::int64_t line_of(const attend::KeyTableJob& term, std::int64_t place) {
  return term.ranked ? static_cast<std::int64_t>(static_cast<const PlaceOf<T>*>(term.ranks)[place]) : place;
}

/// Products by line, to products by place.
template <class T>
void spread_lines(const attend::KeyTableJob& term, const KeyStrip& strip, const T* from, T* to) {
  const auto* const ranks = static_cast<const PlaceOf<T>*>(term.ranks) + strip.place;
  for (std::int64_t column = 0; column < strip.columns; column += lanes<T>) {
    const T* const values = from + (ranks[column] - ranks[0]);
    for (std::int64_t key = 0; key < attend::kKeyStrip; ++key) {
      store(load_rising(values + key * kKeyProductStride, ranks + column), to + key * kKeyProductStride + column);
    }
  }
}

template <class T>
void add_strip(const attend::KeyTableJob& term, const ScoreTile<T>& tile, const KeyStrip& strip, T* scratch) {
  const RowTile<T>& rows = *tile.rows;
  const std::int64_t count = rows.tile->count;
  T* const by_line = scratch + 2 * kKeyBuffer;
  const KeyLines lines_used = lines_of<T>(term, strip);
  gemm(Gemm<T>{.m = attend::kKeyStrip,
               .n = padded(lines_used.count),
               .k = term.width,
               .a = key_features(term, tile) + strip.first * term.padded_width,
               .a_row = term.padded_width,
               .a_k = 1,
               .b = term.columns.of<T>(rows.batch, rows.head) + lines_used.first,
               .b_row = term.line_stride,
               .c = term.ranked ? by_line : scratch,
               .c_row = kKeyProductStride,
               .add = false});
  if (term.ranked) spread_lines(term, strip, by_line, scratch);
  T* const turned = scratch + kKeyBuffer;  // (count, kKeyStrip)
  transpose<T>({scratch + attend::kKeyStrip - 1, kKeyProductStride - 1, attend::kKeyStrip}, count, {turned, attend::kKeyStrip, count});
  for (std::int64_t i = 0; i < count; ++i) {
    T* const row = tile.scores + i * attend::kKeyTile + strip.first;
    for (std::int64_t j = 0; j < attend::kKeyStrip; j += lanes<T>)
      store(add(load(row + j), load(turned + i * attend::kKeyStrip + j)), row + j);
  }
}

/// Score by score, for positions in any order.
template <class T>
void add_key_scores(const attend::KeyTableJob& term, const ScoreTile<T>& tile) {
  const T* const columns = term.columns.of<T>(tile.rows->batch, tile.rows->head);
  const T* const features = key_features(term, tile);
  for (std::int64_t i = 0; i < tile.rows->tile->count; ++i) {
    for (std::int64_t j = 0; j < tile.keys->count; ++j) {
      const T* const column = columns + line_of<T>(term, key_place(term, tile, i, j));
      T sum = 0;
      for (std::int64_t c = 0; c < term.width; ++c) sum += features[j * term.padded_width + c] * column[c * term.line_stride];
      tile.scores[i * attend::kKeyTile + j] += sum;
    }
  }
}

template <class T>
void term_add(const attend::KeyTableJob& term, const ScoreTile<T>& tile, T* scratch) {
  if (is_far(term.band, tile)) {
    const T* const products = far_products(term, tile, far_end(term, tile));
    for (std::int64_t i = 0; i < tile.rows->tile->count; ++i) add_tile_row(products, tile.scores + i * attend::kKeyTile);
    return;
  }
  if (!tile.regular) return add_key_scores(term, tile);
  for (std::int64_t first = 0; first < tile.keys->count; first += attend::kKeyStrip) {
    add_strip(term, tile, key_strip(term, tile, first), scratch);
  }
}

/// Where gradients of a tile go.
template <class T>
struct KeyTableGradients {
  const T* rows;      // of the packed table
  const T* features;  // of the tile's keys
  SlotTable<T> table;
  T* keys;  // by features, (.., padded_width); null: not wanted
};
template <class T>
KeyTableGradients<T> key_table_gradients(const attend::KeyTableJob& term, const ScoreTile<T>& ds, const BackwardTile<T>& backward) {
  const RowTile<T>& rows = *ds.rows;
  const attend::AttentionShape& shape = rows.job->shape;
  KeyTableGradients<T> to = {.rows = term.rows.of<T>(rows.batch, rows.head),
                             .features = key_features(term, ds),
                             .table = slot_table<T>(*rows.job, term.sums, term.slot_rows, backward.slot, term.padded_width),
                             .keys = term.own_features ? static_cast<T*>(term.feature_sums) : backward.k_gradient};
  if (term.own_features && to.keys != nullptr) {
    const std::int64_t head = rows.batch * shape.key_heads + rows.head / shape.group();
    to.keys += (head * shape.keys + ds.keys->first) * term.padded_width;
  }
  return to;
}

/// Sums of ds, of keys from `first` on and of some lines, to features and table. That of (key j, line l) is sums[j key_stride + l
/// line_stride].
template <class T>
struct KeySums {
  const T* sums;
  std::int64_t key_stride;
  std::int64_t line_stride;
  std::int64_t first;
  std::int64_t keys;
  KeyLines lines;
};
template <class T>
void send_key_sums(const attend::KeyTableJob& term, const KeyTableGradients<T>& to, const KeySums<T>& from) {
  const std::int64_t width = term.padded_width;
  if (to.keys != nullptr) {
    gemm(Gemm<T>{.m = from.keys,
                 .n = width,
                 .k = from.lines.count,
                 .a = from.sums,
                 .a_row = from.key_stride,
                 .a_k = from.line_stride,
                 .b = to.rows + from.lines.first * width,
                 .b_row = width,
                 .c = to.keys + from.first * width,
                 .c_row = width,
                 .add = true});
  }
  const std::int64_t first = std::max(from.lines.first, to.table.first);
  const std::int64_t end = std::min(from.lines.first + from.lines.count, to.table.end);
  if (to.table.rows == nullptr || first >= end) return;
  gemm(Gemm<T>{.m = end - first,
               .n = width,
               .k = from.keys,
               .a = from.sums + (first - from.lines.first) * from.line_stride,
               .a_row = from.line_stride,
               .a_k = from.key_stride,
               .b = to.features + from.first * width,
               .b_row = width,
               .c = to.table.rows + (first - to.table.first) * width,
               .c_row = width,
               .add = true});
}

template <class T>
void take_far_tile(const attend::KeyTableJob& term, const ScoreTile<T>& ds, const KeyTableGradients<T>& to, T* sums) {
  std::fill_n(sums, attend::kKeyTile, T{0});
  for (std::int64_t i = 0; i < ds.rows->tile->count; ++i) add_tile_row(ds.scores + i * attend::kKeyTile, sums);
  const std::int64_t line = line_of<T>(term, attend::kKeyWindow + (far_end(term, ds) == 0 ? 0 : term.band.count - 1));
  send_key_sums(term, to,
                KeySums<T>{.sums = sums, .key_stride = 1, .line_stride = 0, .first = 0, .keys = ds.keys->count, .lines = {line, 1}});
}

/// Sums by place, (columns, kKeyStrip), added up by line.
template <class T>
void gather_lines(const attend::KeyTableJob& term, const KeyStrip& strip, const T* from, T* to) {
  const auto* const ranks = static_cast<const PlaceOf<T>*>(term.ranks) + strip.place;
  std::fill_n(to, (ranks[strip.columns - 1] - ranks[0] + 1) * attend::kKeyStrip, T{0});
  for (std::int64_t column = 0; column < strip.columns; ++column, from += attend::kKeyStrip) {
    T* const line = to + (ranks[column] - ranks[0]) * attend::kKeyStrip;
    for (std::int64_t key = 0; key < attend::kKeyStrip; key += lanes<T>) store(add(load(line + key), load(from + key)), line + key);
  }
}

template <class T>
void take_strip(const attend::KeyTableJob& term, const ScoreTile<T>& ds, const KeyStrip& strip, const KeyTableGradients<T>& to,
                T* scratch) {
  const std::int64_t count = ds.rows->tile->count;
  std::fill_n(scratch, kKeyBuffer, T{0});
  transpose<T>({ds.scores + strip.first, attend::kKeyTile, count}, attend::kKeyStrip,
               {scratch + attend::kKeyStrip - 1, kKeyProductStride - 1, attend::kKeyStrip});
  KeySums<T> sums = {.sums = scratch,
                     .key_stride = kKeyProductStride,
                     .line_stride = 1,
                     .first = strip.first,
                     .keys = strip.keys,
                     .lines = lines_of<T>(term, strip)};
  if (term.ranked) {
    T* const turned = scratch + kKeyBuffer;
    T* const by_line = scratch + 2 * kKeyBuffer;
    transpose<T>({scratch, kKeyProductStride, attend::kKeyStrip}, strip.columns, {turned, attend::kKeyStrip, strip.columns});
    gather_lines(term, strip, turned, by_line);
    sums.sums = by_line;
    sums.key_stride = 1;
    sums.line_stride = attend::kKeyStrip;
  }
  send_key_sums(term, to, sums);
}

/// Score by score. A line that the slot does not have: a masked score of a query whose lse is NaN.
template <class T>
void take_key_scores(const attend::KeyTableJob& term, const ScoreTile<T>& ds, const KeyTableGradients<T>& to) {
  const std::int64_t width = term.padded_width;
  for (std::int64_t i = 0; i < ds.rows->tile->count; ++i) {
    for (std::int64_t j = 0; j < ds.keys->count; ++j) {
      const T x = ds.scores[i * attend::kKeyTile + j];
      if (x == 0) continue;
      const std::int64_t line = line_of<T>(term, key_place(term, ds, i, j));
      const bool has_line = to.table.rows != nullptr && line >= to.table.first && line < to.table.end;
      T* const table = has_line ? to.table.rows + (line - to.table.first) * width : nullptr;
      for (std::int64_t c = 0; c < width; ++c) {
        if (to.keys != nullptr) to.keys[j * width + c] += x * to.rows[line * width + c];
        if (table != nullptr) table[c] += x * to.features[j * width + c];
      }
    }
  }
}

template <class T>
void term_gradient(const attend::KeyTableJob& term, const ScoreTile<T>& ds, const BackwardTile<T>& backward, T* scratch) {
  const KeyTableGradients<T> to = key_table_gradients(term, ds, backward);
  if (to.keys == nullptr && to.table.rows == nullptr) return;
  if (is_far(term.band, ds)) return take_far_tile(term, ds, to, scratch);
  if (!ds.regular) return take_key_scores(term, ds, to);
  for (std::int64_t first = 0; first < ds.keys->count; first += attend::kKeyStrip) {
    take_strip(term, ds, key_strip(term, ds, first), to, scratch);
  }
}
