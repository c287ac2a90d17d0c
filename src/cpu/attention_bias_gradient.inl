// SPDX-License-Identifier: Apache-2.0
// A bias by distance, backward: sums of ds along diagonals, of ds times a slope's lengths, of FIRE's segments, and of gates.

template <class T>
HWY_INLINE T sum_of_row(const T* ds) {
  Reg<T> sum = zero<T>();
  HWY_UNROLL(8)
  for (int j = 0; j < job::kKeyTile; j += lanes<T>) sum = add(sum, load(ds + j));
  return reduce_sum(sum);
}
template <class T>
HWY_INLINE T product_of_row(const T* values, const T* ds) {
  Reg<T> sum = zero<T>();
  HWY_UNROLL(8)
  for (int j = 0; j < job::kKeyTile; j += lanes<T>) sum = mul_add(load(values + j), load(ds + j), sum);
  return reduce_sum(sum);
}
template <LineSides sides, class T>
HWY_INLINE T product_with_line(T first, const T* ds) {
  Reg<T> sum = zero<T>();
  HWY_UNROLL(8)
  for (int j = 0; j < job::kKeyTile; j += lanes<T>) sum = mul_add(line_lengths<sides, T>(set(first), j), load(ds + j), sum);
  return reduce_sum(sum);
}

/// Where a tile's sums go, and the gates of its rows.
template <class T>
struct BiasSums {
  const T* gates;
  T* diagonals;       // laid out as a band
  double* ends;       // 2
  double* sums;       // sum_count
  double* gate_sums;  // one a row; each null: not wanted

  BiasSums(const job::BiasJob& term, const RowTile<T>& rows, std::int64_t slot)
      : gates(gates_of(term, rows)), diagonals(nullptr), ends(nullptr), sums(nullptr), gate_sums(nullptr) {
    if (term.diagonals != nullptr) {
      diagonals = static_cast<T*>(term.diagonals) + slot * term.stride;
      ends = term.ends + 2 * slot;
    }
    if (term.sums != nullptr) sums = term.sums + slot * term.sum_count;
    if (term.gate_sums == nullptr) return;
    const job::AttentionShape& shape = rows.job->shape;
    const std::int64_t part = slot / shape.heads % rows.job->backward.parts;
    gate_sums = term.gate_sums + ((part * shape.batch + rows.batch) * shape.heads + rows.head) * shape.queries + rows.tile->first;
  }
  /// The sum of ds bias of a row.
  void add_gate(std::int64_t row, double sum) const {
    if (gate_sums != nullptr) gate_sums[row] += sum;
  }
};

// ---- ALiBi ----

/// The sum of ds times what the slope multiplies.
template <class T>
double take_line_row(const job::BiasJob& term, const ScoreTile<T>& ds, std::int64_t i) {
  const std::int64_t position = ds.rows->positions[i];
  const T* const row = ds.scores + i * job::kKeyTile;
  const bool by_key = term.alibi == AlibiForm::key_position;
  double sum = 0;
  if (!ds.keys->consecutive) {
    for (std::int64_t j = 0; j < ds.keys->count; ++j) {
      const std::int64_t key = ds.key_positions[j];
      sum += static_cast<double>(row[j]) * (by_key ? static_cast<double>(key) : -line_length(term, position - key));
    }
    return sum;
  }
  if (by_key) {
    return static_cast<double>(ds.key_positions[0]) * static_cast<double>(sum_of_row(row)) -
           product_with_line<LineSides::behind>(T{0}, row);
  }
  const auto first = static_cast<T>(position - ds.key_positions[0]);
  const LineSides sides = sides_of(term, ds);
  if (sides == LineSides::both) return -product_with_line<LineSides::both>(first, row);
  if (sides == LineSides::clipped) return -product_with_line<LineSides::clipped>(first, row);
  return -product_with_line<LineSides::behind>(first, row);
}

template <class T>
void take_lines(const job::BiasJob& term, const ScoreTile<T>& ds, const BiasSums<T>& to) {
  const double slope = term.plan->slopes[static_cast<std::size_t>(term.first_head + ds.rows->head)];
  for (std::int64_t i = 0; i < ds.rows->tile->count; ++i) {
    const double sum = take_line_row(term, ds, i);
    if (to.sums != nullptr) to.sums[0] += static_cast<double>(gate_at(to.gates, i)) * sum;
    to.add_gate(i, slope * sum);
  }
}

// ---- Bands ----

/// Adds the diagonals of a regular tile's first rows; `to` is the place of row 0, column 0. A row is one place before the one above it, so
/// that adding row by row would read what was just written, shifted: slow on every machine. Rows a register apart share its lanes: those
/// are summed first, every register of ds read once.
template <class T>
void add_diagonals(const T* ds, const T* gates, std::int64_t rows, T* to) {
  constexpr std::int64_t width = lanes<T>;
  constexpr std::int64_t registers = job::kKeyTile / width;
  for (std::int64_t phase = 0; phase < std::min(width, rows); ++phase) {
    const std::int64_t apart = (rows - phase + width - 1) / width;  // rows phase, phase + width, ...
    for (std::int64_t chunk = 1 - apart; chunk < registers; ++chunk) {
      const std::int64_t first = std::max<std::int64_t>(0, -chunk);
      const std::int64_t end = std::min(apart, registers - chunk);
      Reg<T> sum = zero<T>();
      for (std::int64_t k = first; k < end; ++k) {
        const std::int64_t row = phase + k * width;
        const Reg<T> d = load(ds + row * job::kKeyTile + (k + chunk) * width);
        sum = gates == nullptr ? add(sum, d) : mul_add(set(gates[row]), d, sum);
      }
      T* const at = to + chunk * width - phase;
      store(add(load(at), sum), at);
    }
  }
}

/// Adds one row, whatever its keys.
template <class T>
void take_band_row(const job::BiasJob& term, const ScoreTile<T>& ds, std::int64_t i, const BiasSums<T>& to) {
  const T* const row = ds.scores + i * job::kKeyTile;
  const std::int64_t position = ds.rows->positions[i];
  const T gate = gate_at(to.gates, i);
  if (!ds.keys->consecutive) {
    for (std::int64_t j = 0; j < ds.keys->count; ++j) {
      to.diagonals[clamped_index(term, ds.key_positions[j] - position)] += gate * row[j];
    }
    return;
  }
  const std::int64_t first = ds.key_positions[0] - position;
  const BandPlace place = place_in_band(term, first, first + ds.keys->count - 1);
  if (place == BandPlace::inside) return add_row(row, gate, to.diagonals + band_index(term, first));
  to.ends[place == BandPlace::before ? 0 : 1] += static_cast<double>(gate) * static_cast<double>(sum_of_row(row));
}

template <class T>
double band_gate_row(const job::BiasJob& term, const ScoreTile<T>& ds, std::int64_t i) {
  const T* const band = band_of<T>(term, ds.rows->head);
  const T* const row = ds.scores + i * job::kKeyTile;
  const std::int64_t position = ds.rows->positions[i];
  if (!ds.keys->consecutive) {
    double sum = 0;
    for (std::int64_t j = 0; j < ds.keys->count; ++j) {
      sum += static_cast<double>(row[j]) * static_cast<double>(band[clamped_index(term, ds.key_positions[j] - position)]);
    }
    return sum;
  }
  const std::int64_t first = ds.key_positions[0] - position;
  const BandPlace place = place_in_band(term, first, first + ds.keys->count - 1);
  if (place != BandPlace::inside) return static_cast<double>(band[end_index(term, place)]) * static_cast<double>(sum_of_row(row));
  return product_of_row(band + band_index(term, first), row);
}

/// The rows of a tile that go by the band, all at once; true: done.
template <class T>
bool take_regular_band(const job::BiasJob& term, const ScoreTile<T>& ds, const BiasSums<T>& to) {
  if (!ds.regular) return false;
  const std::int64_t rows = band_rows(term, *ds.rows);
  const BandPlace place = tile_in_band(term, ds);
  if (place == BandPlace::inside) {
    const std::int64_t first = ds.key_positions[0] - ds.rows->positions[0];
    add_diagonals(ds.scores, to.gates, rows, to.diagonals + band_index(term, first));
    return true;
  }
  double sum = 0;
  for (std::int64_t i = 0; i < rows; ++i) {
    sum += static_cast<double>(gate_at(to.gates, i)) * static_cast<double>(sum_of_row(ds.scores + i * job::kKeyTile));
  }
  to.ends[place == BandPlace::before ? 0 : 1] += sum;
  return true;
}

/// Adds a row of ds to the sums of the formula; returns the sum of ds bias.
template <class T>
double take_formula_row(const job::BiasJob& term, const ScoreTile<T>& ds, std::int64_t i, const BiasSums<T>& to) {
  FormulaRow<T> formula;
  const job::BiasRow row = formula.of(ds, i);
  const std::size_t count = row.distances.size();
  const T* const from = ds.scores + i * job::kKeyTile;
  double sum = 0;
  if (to.gate_sums != nullptr) {
    job::bias_row_values(term, row, {formula.values, count});
    for (std::size_t j = 0; j < count; ++j) sum += formula.values[j] * static_cast<double>(from[j]);
  }
  if (to.sums == nullptr) return sum;
  const auto gate = static_cast<double>(gate_at(to.gates, i));
  for (std::size_t j = 0; j < count; ++j) formula.values[j] = gate * static_cast<double>(from[j]);
  job::bias_row_gradient(term, row, {formula.values, count}, {to.sums, static_cast<std::size_t>(term.sum_count)});
  return sum;
}

template <class T>
void take_bands(const job::BiasJob& term, const ScoreTile<T>& ds, const BiasSums<T>& to) {
  const bool done = to.diagonals == nullptr || take_regular_band(term, ds, to);
  for (std::int64_t i = 0; i < ds.rows->tile->count; ++i) {
    if (!beyond_length(term, ds.rows->positions[i])) {
      if (!done) take_band_row(term, ds, i, to);
      if (to.gate_sums != nullptr) to.add_gate(i, band_gate_row(term, ds, i));
    } else if (term.fire.segments > 0) {
      to.add_gate(i, take_fire_row(term, ds, i, gate_at(to.gates, i), to.sums));
    } else {
      to.add_gate(i, take_formula_row(term, ds, i, to));
    }
  }
}

template <class T>
void term_gradient(const job::BiasJob& term, const ScoreTile<T>& ds, const BackwardTile<T>& backward, T* /*scratch*/) {
  if (term.diagonals == nullptr && term.sums == nullptr && term.gate_sums == nullptr) return;
  const BiasSums<T> to(term, *ds.rows, backward.slot);
  if (term.form == job::BiasForm::line) return take_lines(term, ds, to);
  if (term.form == job::BiasForm::band) return take_bands(term, ds, to);
  for (std::int64_t i = 0; i < ds.rows->tile->count; ++i) to.add_gate(i, take_formula_row(term, ds, i, to));
}
