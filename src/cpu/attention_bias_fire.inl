// SPDX-License-Identifier: Apache-2.0
// FIRE's rows beyond its length: a perceptron of one hidden layer of ReLU as straight segments, forward and backward.

inline bool beyond_length(const job::BiasJob& term, std::int64_t position) {
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

  FireSegments(const job::BiasJob& term, std::int64_t head)
      : knots(static_cast<const T*>(term.fire.knots)),
        slopes(static_cast<const T*>(term.fire.slopes) + head * term.fire.segments),
        offsets(static_cast<const T*>(term.fire.offsets) + head * term.fire.segments),
        count(term.fire.segments) {}

  std::int64_t of(T x) const { return std::lower_bound(knots, knots + count - 1, x) - knots; }
  /// The one segment of the columns [begin, end), which one distance after the other has; -1: several.
  std::int64_t of(const FireRow<T>& row, std::int64_t begin, std::int64_t end) const {
    const std::int64_t left = of(row.psi[begin] * row.inverse);
    if (left != of(row.psi[end - 1] * row.inverse)) return -1;
    const bool turns = row.first - begin > 0 && row.first - (end - 1) < 0;  // |r| falls to 0 and rises
    return turns && left != of(T{0}) ? -1 : left;
  }
};

/// A row of the tile, whose column 0 has key - query `offset`.
template <class T>
FireRow<T> fire_row(const job::BiasJob& term, const RowTile<T>& rows, std::int64_t i, std::int64_t offset) {
  const std::int64_t at = band_index(term, offset);
  const T* const growth = static_cast<const T*>(term.fire.growth);
  const T inverse = static_cast<const T*>(term.fire.inverse)[rows.batch * rows.job->shape.queries + rows.tile->first + i];
  return {static_cast<const T*>(term.fire.psi) + at, growth == nullptr ? nullptr : growth + at, inverse, -offset};
}
/// Key j alone; what lies beyond the band is not seen.
template <class T>
FireRow<T> fire_cell(const job::BiasJob& term, const ScoreTile<T>& tile, std::int64_t i, std::int64_t j) {
  return fire_row(term, *tile.rows, i, std::clamp(tile.key_positions[j] - tile.rows->positions[i], term.low, term.high));
}
/// Whether any key of a row of consecutive keys, the first at `offset`, lies in the band.
template <class T>
bool fire_sees(const job::BiasJob& term, const ScoreTile<T>& tile, std::int64_t offset) {
  return offset <= term.high && offset + tile.keys->count - 1 >= term.low;
}

template <class T>
void add_fire_one(const FireSegments<T>& segments, const FireRow<T>& row, std::int64_t j, T gate, T& score) {
  const T x = row.psi[j] * row.inverse;
  const std::int64_t s = segments.of(x);
  score += gate * (segments.slopes[s] * x + segments.offsets[s]);
}

template <class T>
void add_fire_row(const job::BiasJob& term, const ScoreTile<T>& tile, std::int64_t i, T gate) {
  const FireSegments<T> segments(term, tile.rows->head);
  T* const scores = tile.scores + i * job::kKeyTile;
  if (!tile.keys->consecutive) {
    for (std::int64_t j = 0; j < tile.keys->count; ++j) add_fire_one(segments, fire_cell(term, tile, i, j), 0, gate, scores[j]);
    return;
  }
  const std::int64_t offset = tile.key_positions[0] - tile.rows->positions[i];
  if (!fire_sees(term, tile, offset)) return;
  const FireRow<T> row = fire_row(term, *tile.rows, i, offset);
  const std::int64_t whole = segments.of(row, 0, job::kKeyTile);
  for (std::int64_t j = 0; j < job::kKeyTile; j += lanes<T>) {
    const std::int64_t s = whole >= 0 ? whole : segments.of(row, j, j + lanes<T>);
    if (s < 0) {
      for (std::int64_t n = j; n < j + lanes<T>; ++n) add_fire_one(segments, row, n, gate, scores[n]);
      continue;
    }
    const Reg<T> value = mul_add(set(segments.slopes[s] * row.inverse), load(row.psi + j), set(segments.offsets[s]));
    store(mul_add(set(gate), value, load(scores + j)), scores + j);
  }
}

/// Sums of a row, segment by segment.
template <class T>
struct FireRowSums {
  const FireSegments<T>& segments;
  const FireRow<T>& row;
  double gate;
  double slowed;    // M / (c M + 1), M the query's position
  double* sums;     // (segments, kFireSums); null: not wanted
  double bias = 0;  // sum of ds bias

  /// ds, ds psi and ds dpsi/dc of some columns on one segment.
  void take(std::int64_t s, double ds, double ds_psi, double ds_growth) {
    const auto inverse = static_cast<double>(row.inverse);
    bias += static_cast<double>(segments.slopes[s]) * ds_psi * inverse + static_cast<double>(segments.offsets[s]) * ds;
    if (sums == nullptr) return;
    double* const to = sums + s * job::kFireSums;
    to[0] += gate * ds;
    to[1] += gate * ds_psi * inverse;
    to[2] += gate * inverse * (ds_growth - ds_psi * inverse * slowed);
  }
  void take_one(std::int64_t j, T ds) {
    const auto d = static_cast<double>(ds);
    take(segments.of(row.psi[j] * row.inverse), d, d * static_cast<double>(row.psi[j]),
         row.growth == nullptr ? 0 : d * static_cast<double>(row.growth[j]));
  }
  /// Columns [begin, end) of whole registers, all on one segment.
  void take_run(std::int64_t s, const T* ds, std::int64_t begin, std::int64_t end) {
    Reg<T> sum = zero<T>();
    Reg<T> by_psi = zero<T>();
    Reg<T> by_growth = zero<T>();
    for (std::int64_t j = begin; j < end; j += lanes<T>) {
      const Reg<T> d = load(ds + j);
      sum = add(sum, d);
      by_psi = mul_add(d, load(row.psi + j), by_psi);
      if (row.growth != nullptr) by_growth = mul_add(d, load(row.growth + j), by_growth);
    }
    take(s, reduce_sum(sum), reduce_sum(by_psi), reduce_sum(by_growth));
  }
};

/// Adds a row of ds to the segments' sums; returns the sum of ds bias.
template <class T>
double take_fire_row(const job::BiasJob& term, const ScoreTile<T>& ds, std::int64_t i, T gate, double* sums) {
  const FireSegments<T> segments(term, ds.rows->head);
  const T* const row_ds = ds.scores + i * job::kKeyTile;
  const auto position = static_cast<double>(ds.rows->positions[i]);
  const double slowed = position / (term.fire.c * position + 1);
  if (!ds.keys->consecutive) {
    double bias = 0;
    for (std::int64_t j = 0; j < ds.keys->count; ++j) {
      const FireRow<T> cell = fire_cell(term, ds, i, j);
      FireRowSums<T> to{segments, cell, static_cast<double>(gate), slowed, sums};
      to.take_one(0, row_ds[j]);
      bias += to.bias;
    }
    return bias;
  }
  const std::int64_t offset = ds.key_positions[0] - ds.rows->positions[i];
  if (!fire_sees(term, ds, offset)) return 0;
  const FireRow<T> row = fire_row(term, *ds.rows, i, offset);
  FireRowSums<T> to{segments, row, static_cast<double>(gate), slowed, sums};
  const std::int64_t whole = segments.of(row, 0, job::kKeyTile);
  if (whole >= 0) {
    to.take_run(whole, row_ds, 0, job::kKeyTile);
    return to.bias;
  }
  for (std::int64_t j = 0; j < job::kKeyTile; j += lanes<T>) {
    const std::int64_t s = segments.of(row, j, j + lanes<T>);
    if (s >= 0) to.take_run(s, row_ds, j, j + lanes<T>);
    for (std::int64_t n = j; s < 0 && n < j + lanes<T>; ++n) to.take_one(n, row_ds[n]);
  }
  return to.bias;
}
