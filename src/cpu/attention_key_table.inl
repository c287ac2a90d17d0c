// SPDX-License-Identifier: Apache-2.0
// A table that meets keys: the products of a strip of keys with a window of distances, turned round as they are added to scores. The value
// of (row i, key j) lies at distance i - j + const, so that along a row of products it is a neighbour of (i + 1, j): read with a stride one
// short of the row's, the rows of products are columns of scores. Nothing gathers.

constexpr std::int64_t kKeyProductStride = job::kKeyWindow + job::kKeyStrip;

/// A strip of keys of a tile, and the window of distances that they have from its queries.
struct KeyStrip {
  std::int64_t first;    // column
  std::int64_t keys;     // real ones
  std::int64_t place;    // of the window, in the packed table
  std::int64_t columns;  // of the window, padded
};
template <class T>
KeyStrip key_strip(const job::KeyTableJob& term, const ScoreTile<T>& tile, std::int64_t first) {
  const std::int64_t least = -(term.band.first + term.band.count - 1);  // distance of the band's first place
  const std::int64_t distance = tile.distance - first - (job::kKeyStrip - 1);
  return {.first = first,
          .keys = std::min(job::kKeyStrip, tile.keys->count - first),
          .place = std::clamp(distance - least, -job::kKeyWindow, term.band.count - 1) + job::kKeyWindow,
          .columns = padded(tile.rows->tile->count + job::kKeyStrip - 1)};
}

template <class T>
const T* key_features(const job::KeyTableJob& term, const ScoreTile<T>& tile) {
  const RowTile<T>& rows = *tile.rows;
  return static_cast<const T*>(term.features) + rows.batch * term.feature_strides[0] +
         rows.head / rows.job->shape.group() * term.feature_strides[1] + tile.keys->first * term.padded_width;
}
/// Of one end of the table with the tile's keys.
template <class T>
const T* far_products(const job::KeyTableJob& term, const ScoreTile<T>& tile, std::int64_t end) {
  const RowTile<T>& rows = *tile.rows;
  const std::int64_t head = term.far_by_key_head ? rows.head / rows.job->shape.group() : rows.head;
  return static_cast<const T*>(term.far) + rows.batch * term.far_strides[0] + head * term.far_strides[1] +
         end * (rows.job->shape.keys + job::kKeyTile) + tile.keys->first;
}
/// Where every score of a far tile reads: 0, the first place, 1, the last.
template <class T>
std::int64_t far_end(const job::KeyTableJob& term, const ScoreTile<T>& tile) {
  return -tile.min_distance <= term.band.first ? 1 : 0;
}
/// The place of one score.
template <class T>
std::int64_t key_place(const job::KeyTableJob& term, const ScoreTile<T>& tile, std::int64_t i, std::int64_t j) {
  const std::int64_t column = column_of(term.band, tile.key_positions[j] - tile.rows->positions[i]);
  return job::kKeyWindow + term.band.count - 1 - column;
}

template <class T>
void add_strip(const job::KeyTableJob& term, const ScoreTile<T>& tile, const KeyStrip& strip, T* scratch) {
  const RowTile<T>& rows = *tile.rows;
  const std::int64_t count = rows.tile->count;
  gemm(Gemm<T>{.m = job::kKeyStrip,
               .n = strip.columns,
               .k = term.width,
               .a = key_features(term, tile) + strip.first * term.padded_width,
               .a_row = term.padded_width,
               .a_k = 1,
               .b = term.columns.of<T>(rows.batch, rows.head) + strip.place,
               .b_row = term.places,
               .c = scratch,
               .c_row = kKeyProductStride,
               .add = false});
  T* const turned = scratch + job::kKeyStrip * kKeyProductStride;  // (count, kKeyStrip)
  transpose<T>({scratch + job::kKeyStrip - 1, kKeyProductStride - 1, job::kKeyStrip}, count, {turned, job::kKeyStrip, count});
  for (std::int64_t i = 0; i < count; ++i) {
    T* const row = tile.scores + i * job::kKeyTile + strip.first;
    for (std::int64_t j = 0; j < job::kKeyStrip; j += lanes<T>) store(add(load(row + j), load(turned + i * job::kKeyStrip + j)), row + j);
  }
}

/// Score by score, for positions in any order.
template <class T>
void add_key_scores(const job::KeyTableJob& term, const ScoreTile<T>& tile) {
  const T* const columns = term.columns.of<T>(tile.rows->batch, tile.rows->head);
  const T* const features = key_features(term, tile);
  for (std::int64_t i = 0; i < tile.rows->tile->count; ++i) {
    for (std::int64_t j = 0; j < tile.keys->count; ++j) {
      const T* const column = columns + key_place(term, tile, i, j);
      T sum = 0;
      for (std::int64_t c = 0; c < term.width; ++c) sum += features[j * term.padded_width + c] * column[c * term.places];
      tile.scores[i * job::kKeyTile + j] += sum;
    }
  }
}

template <class T>
void term_add(const job::KeyTableJob& term, const ScoreTile<T>& tile, T* scratch) {
  if (is_far(term.band, tile)) {
    const T* const products = far_products(term, tile, far_end(term, tile));
    for (std::int64_t i = 0; i < tile.rows->tile->count; ++i) add_tile_row(products, tile.scores + i * job::kKeyTile);
    return;
  }
  if (!tile.regular) return add_key_scores(term, tile);
  for (std::int64_t first = 0; first < tile.keys->count; first += job::kKeyStrip) {
    add_strip(term, tile, key_strip(term, tile, first), scratch);
  }
}

/// Where gradients of a tile go.
template <class T>
struct KeyTableGradients {
  const T* rows;      // of the packed table
  const T* features;  // of the tile's keys
  T* table;           // null: not wanted
  T* keys;            // by features, (.., padded_width); null: not wanted
};
template <class T>
KeyTableGradients<T> key_table_gradients(const job::KeyTableJob& term, const ScoreTile<T>& ds, const BackwardTile<T>& backward) {
  const RowTile<T>& rows = *ds.rows;
  const job::AttentionShape& shape = rows.job->shape;
  KeyTableGradients<T> to = {.rows = term.rows.of<T>(rows.batch, rows.head),
                             .features = key_features(term, ds),
                             .table = static_cast<T*>(term.sums),
                             .keys = term.own_features ? static_cast<T*>(term.feature_sums) : backward.k_gradient};
  if (to.table != nullptr) to.table += backward.slot * term.places * term.padded_width;
  if (term.own_features && to.keys != nullptr) {
    const std::int64_t head = rows.batch * shape.key_heads + rows.head / shape.group();
    to.keys += (head * shape.keys + ds.keys->first) * term.padded_width;
  }
  return to;
}

/// Sums of ds, (keys, columns) from a place on, to features and table. The sum of (key j, column c) is sums[j * key_stride + c].
template <class T>
struct KeySums {
  const T* sums;
  std::int64_t key_stride;
  std::int64_t keys;
  std::int64_t first;
  std::int64_t columns;
  std::int64_t place;
};
template <class T>
void send_key_sums(const job::KeyTableJob& term, const KeyTableGradients<T>& to, const KeySums<T>& from) {
  const std::int64_t width = term.padded_width;
  if (to.keys != nullptr) {
    gemm(Gemm<T>{.m = from.keys,
                 .n = width,
                 .k = from.columns,
                 .a = from.sums,
                 .a_row = from.key_stride,
                 .a_k = 1,
                 .b = to.rows + from.place * width,
                 .b_row = width,
                 .c = to.keys + from.first * width,
                 .c_row = width,
                 .add = true});
  }
  if (to.table == nullptr) return;
  gemm(Gemm<T>{.m = from.columns,
               .n = width,
               .k = from.keys,
               .a = from.sums,
               .a_row = 1,
               .a_k = from.key_stride,
               .b = to.features + from.first * width,
               .b_row = width,
               .c = to.table + from.place * width,
               .c_row = width,
               .add = true});
}

template <class T>
void take_far_tile(const job::KeyTableJob& term, const ScoreTile<T>& ds, const KeyTableGradients<T>& to, T* sums) {
  std::fill_n(sums, job::kKeyTile, T{0});
  for (std::int64_t i = 0; i < ds.rows->tile->count; ++i) add_tile_row(ds.scores + i * job::kKeyTile, sums);
  const std::int64_t place = far_end(term, ds) == 0 ? 0 : term.places - 1;
  send_key_sums(term, to, KeySums<T>{.sums = sums, .key_stride = 1, .keys = ds.keys->count, .first = 0, .columns = 1, .place = place});
}

template <class T>
void take_strip(const job::KeyTableJob& term, const ScoreTile<T>& ds, const KeyStrip& strip, const KeyTableGradients<T>& to, T* scratch) {
  const std::int64_t count = ds.rows->tile->count;
  std::fill_n(scratch, job::kKeyStrip * kKeyProductStride, T{0});
  transpose<T>({ds.scores + strip.first, job::kKeyTile, count}, job::kKeyStrip,
               {scratch + job::kKeyStrip - 1, kKeyProductStride - 1, job::kKeyStrip});
  send_key_sums(term, to,
                KeySums<T>{.sums = scratch,
                           .key_stride = kKeyProductStride,
                           .keys = strip.keys,
                           .first = strip.first,
                           .columns = count + job::kKeyStrip - 1,
                           .place = strip.place});
}

/// Score by score.
template <class T>
void take_key_scores(const job::KeyTableJob& term, const ScoreTile<T>& ds, const KeyTableGradients<T>& to) {
  const std::int64_t width = term.padded_width;
  for (std::int64_t i = 0; i < ds.rows->tile->count; ++i) {
    for (std::int64_t j = 0; j < ds.keys->count; ++j) {
      const T x = ds.scores[i * job::kKeyTile + j];
      if (x == 0) continue;
      const std::int64_t place = key_place(term, ds, i, j) * width;
      for (std::int64_t c = 0; c < width; ++c) {
        if (to.keys != nullptr) to.keys[j * width + c] += x * to.rows[place + c];
        if (to.table != nullptr) to.table[place + c] += x * to.features[j * width + c];
      }
    }
  }
}

template <class T>
void term_gradient(const job::KeyTableJob& term, const ScoreTile<T>& ds, const BackwardTile<T>& backward, T* scratch) {
  const KeyTableGradients<T> to = key_table_gradients(term, ds, backward);
  if (to.keys == nullptr && to.table == nullptr) return;
  if (is_far(term.band, ds)) return take_far_tile(term, ds, to, scratch);
  if (!ds.regular) return take_key_scores(term, ds, to);
  for (std::int64_t first = 0; first < ds.keys->count; first += job::kKeyStrip) {
    take_strip(term, ds, key_strip(term, ds, first), to, scratch);
  }
}
