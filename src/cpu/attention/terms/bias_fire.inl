// SPDX-License-Identifier: Apache-2.0
// FIRE's rows beyond its length: a perceptron of one hidden layer of ReLU as straight segments, forward and backward.

inline bool beyond_length(const attend::BiasJob& term, std::int64_t position) {
  return term.fire.present && static_cast<double>(position) > term.fire.length;
}

/// A row of a tile: x of column j is psi[j] inverse.
template <class T>
struct FireRow {
  const T* psi;
  const T* growth;  // null: not wanted
  T inverse;
  std::int64_t first;  // the distance of column 0
};

template <class T>
struct FireSegments {
  const T* knots;
  const T* slopes;
  const T* offsets;
  std::int64_t count;

  FireSegments(const attend::BiasJob& term, std::int64_t head)
      : knots(static_cast<const T*>(term.fire.knots)),
        slopes(static_cast<const T*>(term.fire.slopes) + head * term.fire.segments),
        offsets(static_cast<const T*>(term.fire.offsets) + head * term.fire.segments),
        count(term.fire.segments) {}

  std::int64_t of(T x) const { return std::lower_bound(knots, knots + count - 1, x) - knots; }
};

/// Segments that a row of consecutive keys meets: |r| is least and greatest at its ends, or 0 between them.
struct SegmentRange {
  std::int64_t first;
  std::int64_t last;
};
template <class T>
SegmentRange segments_of(const FireSegments<T>& segments, const FireRow<T>& row) {
  const T left = row.psi[0] * row.inverse;
  const T right = row.psi[attend::kKeyTile - 1] * row.inverse;
  const bool turns = row.first > 0 && row.first < attend::kKeyTile - 1;
  return {segments.of(turns ? T{0} : std::min(left, right)), segments.of(std::max(left, right))};
}

/// A row of the tile, whose column 0 has key - query `offset`.
template <class T>
FireRow<T> fire_row(const attend::BiasJob& term, const RowTile<T>& rows, std::int64_t i, std::int64_t offset) {
  const std::int64_t at = band_index(term, offset);
  const T* const growth = static_cast<const T*>(term.fire.growth);
  const T inverse = static_cast<const T*>(term.fire.inverse)[rows.batch * rows.job->shape.queries + rows.tile->first + i];
  return {static_cast<const T*>(term.fire.psi) + at, growth == nullptr ? nullptr : growth + at, inverse, -offset};
}
/// Key j alone; what lies beyond the band is not seen.
template <class T>
FireRow<T> fire_cell(const attend::BiasJob& term, const ScoreTile<T>& tile, std::int64_t i, std::int64_t j) {
  return fire_row(term, *tile.rows, i, std::clamp(tile.key_positions[j] - tile.rows->positions[i], term.low, term.high));
}
/// Whether any key of a row of consecutive keys, the first at `offset`, lies in the band.
template <class T>
bool fire_sees(const attend::BiasJob& term, const ScoreTile<T>& tile, std::int64_t offset) {
  return offset <= term.high && offset + tile.keys->count - 1 >= term.low;
}

template <class T>
void add_fire_one(const FireSegments<T>& segments, const FireRow<T>& row, std::int64_t j, T gate, T& score) {
  const T x = row.psi[j] * row.inverse;
  const std::int64_t s = segments.of(x);
  score += gate * (segments.slopes[s] * x + segments.offsets[s]);
}

template <class T>
void add_fire_row(const attend::BiasJob& term, const ScoreTile<T>& tile, std::int64_t i, T gate) {
  const FireSegments<T> segments(term, tile.rows->head);
  T* const scores = tile.scores + i * attend::kKeyTile;
  if (!tile.keys->consecutive) {
    for (std::int64_t j = 0; j < tile.keys->count; ++j) add_fire_one(segments, fire_cell(term, tile, i, j), 0, gate, scores[j]);
    return;
  }
  const std::int64_t offset = tile.key_positions[0] - tile.rows->positions[i];
  if (!fire_sees(term, tile, offset)) return;
  const FireRow<T> row = fire_row(term, *tile.rows, i, offset);
  const SegmentRange range = segments_of(segments, row);
  const Reg<T> slope = set(segments.slopes[range.first] * row.inverse);
  // The first segment's line, and at each knot the change of slope from there on.
  for (std::int64_t j = 0; j < attend::kKeyTile; j += lanes<T>) {
    const Reg<T> x = mul(load(row.psi + j), set(row.inverse));
    Reg<T> value = mul_add(slope, load(row.psi + j), set(segments.offsets[range.first]));
    for (std::int64_t s = range.first; s < range.last; ++s) {
      const T change = segments.slopes[s + 1] - segments.slopes[s];
      value = mul_add(set(change), max(sub(x, set(segments.knots[s])), zero<T>()), value);
    }
    store(mul_add(set(gate), value, load(scores + j)), scores + j);
  }
}

/// Of some columns: ds, ds psi and ds dpsi/dc.
struct FireColumns {
  double ds = 0;
  double psi = 0;
  double growth = 0;
};
/// Of the columns of a row whose x is above `knot`; all of them: below 0.
template <class T>
FireColumns columns_above(const FireRow<T>& row, T knot, const T* ds) {
  Reg<T> sum = zero<T>();
  Reg<T> by_psi = zero<T>();
  Reg<T> by_growth = zero<T>();
  for (std::int64_t j = 0; j < attend::kKeyTile; j += lanes<T>) {
    const Reg<T> psi = load(row.psi + j);
    const Reg<T> d = if_then_else(less(set(knot), mul(psi, set(row.inverse))), load(ds + j), zero<T>());
    sum = add(sum, d);
    by_psi = mul_add(d, psi, by_psi);
    if (row.growth != nullptr) by_growth = mul_add(d, load(row.growth + j), by_growth);
  }
  return {reduce_sum(sum), reduce_sum(by_psi), reduce_sum(by_growth)};
}
template <class T>
FireColumns one_column(const FireRow<T>& row, T ds) {
  const auto d = static_cast<double>(ds);
  return {d, d * static_cast<double>(row.psi[0]), row.growth == nullptr ? 0 : d * static_cast<double>(row.growth[0])};
}

/// Sums of a row, segment by segment.
template <class T>
struct FireRowSums {
  const FireSegments<T>& segments;
  double gate;
  double slowed;    // M / (c M + 1), M the query's position
  double* sums;     // (segments, kFireSums); null: not wanted
  double bias = 0;  // sum of ds bias

  /// Columns on segment s: `columns` without `others`.
  void take(std::int64_t s, const FireRow<T>& row, const FireColumns& columns, const FireColumns& others) {
    const auto inverse = static_cast<double>(row.inverse);
    const double ds = columns.ds - others.ds;
    const double ds_x = (columns.psi - others.psi) * inverse;
    bias += static_cast<double>(segments.slopes[s]) * ds_x + static_cast<double>(segments.offsets[s]) * ds;
    if (sums == nullptr) return;
    double* const to = sums + s * attend::kFireSums;
    to[0] += gate * ds;
    to[1] += gate * ds_x;
    to[2] += gate * inverse * (columns.growth - others.growth - ds_x * slowed);
  }
};

/// Adds a row of ds to the segments' sums; returns the sum of ds bias.
template <class T>
double take_fire_row(const attend::BiasJob& term, const ScoreTile<T>& ds, std::int64_t i, T gate, double* sums) {
  const FireSegments<T> segments(term, ds.rows->head);
  const T* const row_ds = ds.scores + i * attend::kKeyTile;
  const auto position = static_cast<double>(ds.rows->positions[i]);
  FireRowSums<T> to{segments, static_cast<double>(gate), position / (term.fire.c * position + 1), sums};
  if (!ds.keys->consecutive) {
    for (std::int64_t j = 0; j < ds.keys->count; ++j) {
      const FireRow<T> cell = fire_cell(term, ds, i, j);
      to.take(segments.of(cell.psi[0] * cell.inverse), cell, one_column(cell, row_ds[j]), {});
    }
    return to.bias;
  }
  const std::int64_t offset = ds.key_positions[0] - ds.rows->positions[i];
  if (!fire_sees(term, ds, offset)) return 0;
  const FireRow<T> row = fire_row(term, *ds.rows, i, offset);
  const SegmentRange range = segments_of(segments, row);
  FireColumns columns = columns_above(row, T{-1}, row_ds);
  for (std::int64_t s = range.first; s < range.last; ++s) {
    const FireColumns above = columns_above(row, segments.knots[s], row_ds);
    to.take(s, row, columns, above);
    columns = above;
  }
  to.take(range.last, row, columns, {});
  return to.bias;
}
