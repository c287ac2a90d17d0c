// SPDX-License-Identifier: Apache-2.0
// A bias by distance, backward: sums of ds along diagonals, of ds times a slope's lengths, of FIRE's segments, and of gates.

template <class T>
HWY_INLINE T sum_of_row(const T* ds) {
  Reg<T> sum = zero<T>();
  HWY_UNROLL(8)
  for (int j = 0; j < attend::kKeyTile; j += lanes<T>) sum = add(sum, load(ds + j));
  return reduce_sum(sum);
}
template <class T>
HWY_INLINE T product_of_row(const T* values, const T* ds) {
  Reg<T> sum = zero<T>();
  HWY_UNROLL(8)
  for (int j = 0; j < attend::kKeyTile; j += lanes<T>) sum = mul_add(load(values + j), load(ds + j), sum);
  return reduce_sum(sum);
}
/// Of the first rows of a tile.
template <class T>
double sum_of_rows(const T* ds, std::int64_t rows) {
  Reg<T> sum[4] = {zero<T>(), zero<T>(), zero<T>(), zero<T>()};
  for (std::int64_t at = 0; at < rows * attend::kKeyTile; at += 4 * lanes<T>) {
    HWY_UNROLL(4)
    for (int n = 0; n < 4; ++n) sum[n] = add(sum[n], load(ds + at + n * lanes<T>));
  }
  return reduce_sum(add(add(sum[0], sum[1]), add(sum[2], sum[3])));
}
template <LineSides sides, class T>
HWY_INLINE T product_with_line(T first, const T* ds) {
  Reg<T> sum = zero<T>();
  HWY_UNROLL(8)
  for (int j = 0; j < attend::kKeyTile; j += lanes<T>) sum = mul_add(line_lengths<sides, T>(set(first), j), load(ds + j), sum);
  return reduce_sum(sum);
}

/// Where a tile's sums go, and the gates of its rows.
template <class T>
struct BiasSums {
  const T* gates;
  T* diagonals;          // laid out as a band
  std::int64_t skipped;  // places of the band before them
  double* ends;          // 2
  double* sums;          // sum_count
  double* gate_sums;     // one per row; each null: not wanted
  T* scratch;            // of the formula

  BiasSums(const attend::BiasJob& term, const RowTile<T>& rows, std::int64_t slot, T* term_scratch)
      : gates(gates_of(term, rows)),
        diagonals(nullptr),
        skipped(0),
        ends(nullptr),
        sums(nullptr),
        gate_sums(nullptr),
        scratch(term_scratch) {
    const std::int64_t slots = rows.job->backward.parts * rows.job->shape.heads;  // of a group
    if (term.diagonals != nullptr) {
      const attend::GroupBand& band = term.group_bands[slot / slots];
      diagonals = static_cast<T*>(term.diagonals) + band.first + slot % slots * band.stride;
      skipped = band.skipped;
      ends = term.ends + 2 * slot;
    }
    if (term.sums != nullptr) sums = term.sums + slot * term.sum_count;
    if (term.gate_sums == nullptr) return;
    const attend::AttentionShape& shape = rows.job->shape;
    const std::int64_t part = slot / shape.heads % rows.job->backward.parts;
    gate_sums = term.gate_sums + ((part * shape.batch + rows.batch) * shape.heads + rows.head) * shape.queries + rows.tile->first;
  }
  T* diagonal(const attend::BiasJob& term, std::int64_t offset) const { return diagonals + (band_index(term, offset) - skipped); }
  /// The sum of ds bias of a row.
  void add_gate(std::int64_t row, double sum) const {
    if (gate_sums != nullptr) gate_sums[row] += sum;
  }
};

// ---- ALiBi ----

/// The sum of ds times what the slope multiplies.
template <class T>
double take_line_row(const attend::BiasJob& term, const ScoreTile<T>& ds, std::int64_t i) {
  const std::int64_t position = ds.rows->positions[i];
  const T* const row = ds.scores + i * attend::kKeyTile;
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

/// The same of a whole tile of consecutive keys; from_key: distances are those of the first key.
template <LineSides sides, class T>
double take_whole_lines(const ScoreTile<T>& ds, bool from_key = false) {
  Reg<T> sum[4] = {zero<T>(), zero<T>(), zero<T>(), zero<T>()};
  for (std::int64_t i = 0; i < ds.rows->tile->count; ++i) {
    const Reg<T> first = from_key ? zero<T>() : set(static_cast<T>(ds.rows->positions[i] - ds.key_positions[0]));
    const T* const row = ds.scores + i * attend::kKeyTile;
    HWY_UNROLL(8)
    for (int j = 0; j < attend::kKeyTile; j += lanes<T>) {
      Reg<T>& at = sum[j / lanes<T> % 4];
      at = mul_add(line_lengths<sides, T>(first, j), load(row + j), at);
    }
  }
  return -reduce_sum(add(add(sum[0], sum[1]), add(sum[2], sum[3])));
}
template <class T>
double take_whole_lines(const attend::BiasJob& term, const ScoreTile<T>& ds) {
  if (term.alibi == AlibiForm::key_position) {
    const double sum = sum_of_rows(ds.scores, ds.rows->tile->count);
    return static_cast<double>(ds.key_positions[0]) * sum + take_whole_lines<LineSides::behind>(ds, true);
  }
  const LineSides sides = sides_of(term, ds);
  if (sides == LineSides::both) return take_whole_lines<LineSides::both>(ds);
  if (sides == LineSides::clipped) return take_whole_lines<LineSides::clipped>(ds);
  return take_whole_lines<LineSides::behind>(ds);
}

template <class T>
void take_lines(const attend::BiasJob& term, const ScoreTile<T>& ds, const BiasSums<T>& to) {
  if (to.gates == nullptr && ds.keys->consecutive) {
    to.sums[0] += take_whole_lines(term, ds);
    return;
  }
  const double slope = term.source.slopes[static_cast<std::size_t>(term.first_head + ds.rows->head)];
  for (std::int64_t i = 0; i < ds.rows->tile->count; ++i) {
    const double sum = take_line_row(term, ds, i);
    if (to.sums != nullptr) to.sums[0] += static_cast<double>(gate_at(to.gates, i)) * sum;
    to.add_gate(i, slope * sum);
  }
}

// ---- Bands ----

/// Adds the diagonals of a block as in add_skewed_block: every register of ds is read once. Row by row, each would read what the row
/// above had just written, shifted by a place: slow on every machine.
template <bool gated, class T>
HWY_INLINE void take_skewed_block(const T* ds, const T* gates, T* to) {
  constexpr int width = lanes<T>;
  Reg<T> sum[kSkewValues<T>];
  BandValues<T>{to}.load_all(-(kSkewRows - 1) * width, sum);
  HWY_UNROLL(8)
  for (int k = 0; k < kSkewRows; ++k) {
    HWY_UNROLL(8)
    for (int n = 0; n < kSkewColumns<T>; ++n) {
      const Reg<T> d = load(ds + k * width * attend::kKeyTile + n * width);
      Reg<T>& at = sum[n - k + kSkewRows - 1];
      at = gated ? mul_add(set(gates[k * width]), d, at) : add(at, d);
    }
  }
  HWY_UNROLL(16)
  for (int n = 0; n < kSkewValues<T>; ++n) store(sum[n], to + (n - kSkewRows + 1) * width);
}
template <bool gated, class T>
void take_skewed_blocks(const T* ds, const T* gates, std::int64_t rows, T* to) {
  for (std::int64_t first = 0; first < rows; first += kSkewRows * lanes<T>) {
    for (std::int64_t i = first; i < first + lanes<T>; ++i) {
      for (std::int64_t j = 0; j < attend::kKeyTile; j += kSkewColumns<T> * lanes<T>) {
        take_skewed_block<gated>(ds + i * attend::kKeyTile + j, gated ? gates + i : nullptr, to - i + j);
      }
    }
  }
}
/// The first rows of a regular tile, as many as there are whole blocks; returns their number.
template <class T>
std::int64_t take_skewed(const T* ds, const T* gates, std::int64_t rows, T* to) {
  constexpr std::int64_t block = kSkewRows * lanes<T>;
  const std::int64_t whole = rows / block * block;
  gates == nullptr ? take_skewed_blocks<false>(ds, gates, whole, to) : take_skewed_blocks<true>(ds, gates, whole, to);
  return whole;
}

/// Adds one row, whatever its keys.
template <class T>
void take_band_row(const attend::BiasJob& term, const ScoreTile<T>& ds, std::int64_t i, const BiasSums<T>& to) {
  const T* const row = ds.scores + i * attend::kKeyTile;
  const std::int64_t position = ds.rows->positions[i];
  const T gate = gate_at(to.gates, i);
  if (!ds.keys->consecutive) {
    for (std::int64_t j = 0; j < ds.keys->count; ++j) {
      *to.diagonal(term, std::clamp(ds.key_positions[j] - position, term.low, term.high)) += gate * row[j];
    }
    return;
  }
  const std::int64_t first = ds.key_positions[0] - position;
  const BandPlace place = place_in_band(term, first, first + ds.keys->count - 1);
  if (place == BandPlace::inside) return add_row(row, gate, to.diagonal(term, first));
  to.ends[place == BandPlace::before ? 0 : 1] += static_cast<double>(gate) * static_cast<double>(sum_of_row(row));
}

template <class T>
double band_gate_row(const attend::BiasJob& term, const ScoreTile<T>& ds, std::int64_t i) {
  const T* const band = band_of<T>(term, ds.rows->head);
  const T* const row = ds.scores + i * attend::kKeyTile;
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

/// The first rows of a regular tile that go by the band, all at once; returns how many.
template <class T>
std::int64_t take_regular_band(const attend::BiasJob& term, const ScoreTile<T>& ds, const BiasSums<T>& to) {
  if (!ds.regular) return 0;
  const std::int64_t rows = band_rows(term, *ds.rows);
  const BandPlace place = tile_in_band(term, ds);
  if (place == BandPlace::inside) {
    return take_skewed(ds.scores, to.gates, rows, to.diagonal(term, -ds.distance));
  }
  if (to.gates != nullptr) return 0;
  to.ends[place == BandPlace::before ? 0 : 1] += sum_of_rows(ds.scores, rows);
  return rows;
}

/// Adds a row of ds to the sums of the formula; returns the sum of ds bias.
template <class T>
double take_formula_row(const attend::BiasJob& term, const ScoreTile<T>& ds, std::int64_t i, const BiasSums<T>& to) {
  FormulaRow<T> formula;
  const attend::BiasRow row = formula.of(ds, i, to.scratch);
  const std::size_t count = row.distances.size();
  const T* const from = ds.scores + i * attend::kKeyTile;
  double sum = 0;
  if (to.gate_sums != nullptr) {
    attend::bias_row_values(term, row, {formula.values, count});
    for (std::size_t j = 0; j < count; ++j) sum += formula.values[j] * static_cast<double>(from[j]);
  }
  if (to.sums == nullptr) return sum;
  const auto gate = static_cast<double>(gate_at(to.gates, i));
  for (std::size_t j = 0; j < count; ++j) formula.values[j] = gate * static_cast<double>(from[j]);
  attend::bias_row_gradient(term, row, {formula.values, count}, {to.sums, static_cast<std::size_t>(term.sum_count)});
  return sum;
}

template <class T>
void take_bands(const attend::BiasJob& term, const ScoreTile<T>& ds, const BiasSums<T>& to) {
  const std::int64_t done = to.diagonals == nullptr ? 0 : take_regular_band(term, ds, to);
  if (done == ds.rows->tile->count && to.gate_sums == nullptr) return;
  for (std::int64_t i = 0; i < ds.rows->tile->count; ++i) {
    if (!beyond_length(term, ds.rows->positions[i])) {
      if (i >= done && to.diagonals != nullptr) take_band_row(term, ds, i, to);
      if (to.gate_sums != nullptr) to.add_gate(i, band_gate_row(term, ds, i));
    } else if (term.fire.segments > 0) {
      to.add_gate(i, take_fire_row(term, ds, i, gate_at(to.gates, i), to.sums));
    } else {
      to.add_gate(i, take_formula_row(term, ds, i, to));
    }
  }
}

template <class T>
void term_gradient(const attend::BiasJob& term, const ScoreTile<T>& ds, const BackwardTile<T>& backward, T* scratch) {
  if (term.diagonals == nullptr && term.sums == nullptr && term.gate_sums == nullptr) return;
  const BiasSums<T> to(term, *ds.rows, backward.slot, scratch);
  if (term.form == attend::BiasForm::line) return take_lines(term, ds, to);
  if (term.form == attend::BiasForm::band) return take_bands(term, ds, to);
  for (std::int64_t i = 0; i < ds.rows->tile->count; ++i) to.add_gate(i, take_formula_row(term, ds, i, to));
}
