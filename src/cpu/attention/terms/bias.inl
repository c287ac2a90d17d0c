// SPDX-License-Identifier: Apache-2.0
// A bias by distance, forward: ALiBi as a line, values of a band laid out by key - query, FIRE's rows, or the plan's formula. Included once
// in each target's namespace. Rows of consecutive keys are whole registers; other keys go one by one.

static_assert(attend::kBandMargin >= attend::kQueryTile + attend::kKeyTile);

/// Gates of the rows of a tile; null: 1.
template <class T>
const T* gates_of(const attend::BiasJob& term, const RowTile<T>& rows) {
  if (term.gate == nullptr) return nullptr;
  return static_cast<const T*>(term.gate) + rows.batch * term.gate_batch + rows.head * term.gate_head + rows.tile->first;
}
template <class T>
T gate_at(const T* gates, std::int64_t row) {
  return gates == nullptr ? T{1} : gates[row];
}

// ---- Rows ----

/// scores += values, or gate values, a row of a tile.
template <class T>
HWY_INLINE void add_row(const T* values, T* scores) {
  HWY_UNROLL(8)
  for (int j = 0; j < attend::kKeyTile; j += lanes<T>) store(add(load(values + j), load(scores + j)), scores + j);
}
template <class T>
HWY_INLINE void add_row(const T* values, T gate, T* scores) {
  const Reg<T> factor = set(gate);
  HWY_UNROLL(8)
  for (int j = 0; j < attend::kKeyTile; j += lanes<T>) store(mul_add(factor, load(values + j), load(scores + j)), scores + j);
}
template <class T>
HWY_INLINE void add_constant(T value, T* scores) {
  const Reg<T> all = set(value);
  HWY_UNROLL(8)
  for (int j = 0; j < attend::kKeyTile; j += lanes<T>) store(add(all, load(scores + j)), scores + j);
}

/// 0, 1, 2, ...: Highway's Iota is a loop of single lanes.
template <class T>
struct Counted {
  T numbers[attend::kQueryTile + attend::kKeyTile] = {};
  constexpr Counted() {
    for (int n = 0; n < attend::kQueryTile + attend::kKeyTile; ++n) numbers[n] = static_cast<T>(n);
  }
};
template <class T>
alignas(64) constexpr Counted<T> kCounted;

/// Distances of a row's keys as ALiBi counts them: `first`, first - 1, ... or, where some are negative, their lengths or 0.
enum class LineSides : std::uint8_t { behind, both, clipped };
template <LineSides sides, class T>
HWY_INLINE Reg<T> line_lengths(Reg<T> first, int column) {
  const Reg<T> r = sub(first, load(kCounted<T>.numbers + column));
  if constexpr (sides == LineSides::both) return absolute(r);
  if constexpr (sides == LineSides::clipped) return max(r, zero<T>());
  return r;
}
template <LineSides sides, class T>
HWY_INLINE void add_line(T first, T slope, T* scores) {
  HWY_UNROLL(8)
  for (int j = 0; j < attend::kKeyTile; j += lanes<T>) {
    store(mul_add(set(slope), line_lengths<sides, T>(set(first), j), load(scores + j)), scores + j);
  }
}

template <class T>
LineSides sides_of(const attend::BiasJob& term, const ScoreTile<T>& tile) {
  if (tile.min_distance >= 0) return LineSides::behind;
  return term.alibi == AlibiForm::symmetric ? LineSides::both : LineSides::clipped;
}

inline double line_length(const attend::BiasJob& term, std::int64_t r) {
  if (r >= 0) return static_cast<double>(r);
  return term.alibi == AlibiForm::symmetric ? -static_cast<double>(r) : 0;
}

// ---- Regular tiles ----

// A row of a regular tile reads its values, laid out by key - query, one place before the row above it. Rows a register apart read the same
// registers: blocks of such rows load each once. A block is walked column by column, since its rows are 4096 bytes apart: a load too soon
// after a store at the same place of another page waits for it.
constexpr int kSkewRows = 6;
template <class T>
constexpr int kSkewColumns = std::min<int>(8, attend::kKeyTile / lanes<T>);  // registers

template <class T>
constexpr int kSkewValues = kSkewColumns<T> + kSkewRows - 1;
static_assert(kSkewValues<float> * lanes<float> <= attend::kQueryTile + attend::kKeyTile);

/// Values by key - query, place 0 at row 0, column 0 of the tile: those of a band.
template <class T>
struct BandValues {
  const T* values;
  HWY_INLINE void load_all(std::int64_t place, Reg<T> (&out)[kSkewValues<T>]) const {
    HWY_UNROLL(16)
    for (int n = 0; n < kSkewValues<T>; ++n) out[n] = load(values + place + n * lanes<T>);
  }
};
/// Those of a line, from the distance at place 0.
template <LineSides sides, class T>
struct LineValues {
  std::int64_t distance;
  T slope;
  HWY_INLINE void load_all(std::int64_t place, Reg<T> (&out)[kSkewValues<T>]) const {
    const Reg<T> first = set(static_cast<T>(distance - place));
    HWY_UNROLL(16)
    for (int n = 0; n < kSkewValues<T>; ++n) out[n] = mul(set(slope), line_lengths<sides, T>(first, n * lanes<T>));
  }
};

/// Rows 0, lanes, 2 lanes, ... of a block of scores; `place` is that of its row 0, column 0.
template <bool gated, class Values, class T>
HWY_INLINE void add_skewed_block(const Values& values, std::int64_t place, const T* gates, T* scores) {
  constexpr int width = lanes<T>;
  Reg<T> value[kSkewValues<T>];
  values.load_all(place - (kSkewRows - 1) * width, value);
  HWY_UNROLL(8)
  for (int n = 0; n < kSkewColumns<T>; ++n) {
    Reg<T> sum[kSkewRows];
    HWY_UNROLL(8)
    for (int k = 0; k < kSkewRows; ++k) {
      const Reg<T> score = load(scores + k * width * attend::kKeyTile + n * width);
      const Reg<T> from = value[n - k + kSkewRows - 1];
      sum[k] = gated ? mul_add(set(gates[k * width]), from, score) : add(from, score);
    }
    HWY_UNROLL(8)
    for (int k = 0; k < kSkewRows; ++k) store(sum[k], scores + k * width * attend::kKeyTile + n * width);
  }
}
template <bool gated, class Values, class T>
void add_skewed_blocks(const Values& values, const T* gates, std::int64_t rows, T* scores) {
  for (std::int64_t first = 0; first < rows; first += kSkewRows * lanes<T>) {
    for (std::int64_t i = first; i < first + lanes<T>; ++i) {
      for (std::int64_t j = 0; j < attend::kKeyTile; j += kSkewColumns<T> * lanes<T>) {
        add_skewed_block<gated>(values, j - i, gated ? gates + i : nullptr, scores + i * attend::kKeyTile + j);
      }
    }
  }
}

/// The first rows of a regular tile, as many as there are whole blocks; returns their number.
template <class Values, class T>
std::int64_t add_skewed(const Values& values, const T* gates, std::int64_t rows, T* scores) {
  constexpr std::int64_t block = kSkewRows * lanes<T>;
  const std::int64_t whole = rows / block * block;
  gates == nullptr ? add_skewed_blocks<false>(values, gates, whole, scores) : add_skewed_blocks<true>(values, gates, whole, scores);
  return whole;
}

// ---- ALiBi ----

/// AlibiForm::key_position is a function of the key alone.
template <class T>
void add_key_positions(const attend::BiasJob& term, const ScoreTile<T>& tile, double slope) {
  HWY_ALIGN T values[attend::kKeyTile] = {};
  for (std::int64_t j = 0; j < tile.keys->count; ++j) values[j] = static_cast<T>(slope * static_cast<double>(tile.key_positions[j]));
  const T* const gates = gates_of(term, *tile.rows);
  for (std::int64_t i = 0; i < tile.rows->tile->count; ++i) {
    T* const scores = tile.scores + i * attend::kKeyTile;
    gates == nullptr ? add_row(values, scores) : add_row(values, gates[i], scores);
  }
}

/// Rows of consecutive keys.
template <LineSides sides, class T>
void add_whole_lines(const ScoreTile<T>& tile, const T* gates, T slope) {
  const std::int64_t rows = tile.rows->tile->count;
  const LineValues<sides, T> values = {tile.distance, slope};
  for (std::int64_t i = tile.regular ? add_skewed(values, gates, rows, tile.scores) : 0; i < rows; ++i) {
    const auto first = static_cast<T>(tile.rows->positions[i] - tile.key_positions[0]);
    add_line<sides>(first, gate_at(gates, i) * slope, tile.scores + i * attend::kKeyTile);
  }
}

// The distance is a whole number until it meets the slope: nothing is lost at any length. (Where it is too large for T, the bias is off by
// one part in 2^24, as any float32 is.)
template <class T>
void add_lines(const attend::BiasJob& term, const ScoreTile<T>& tile) {
  const double slope = term.source.slopes[static_cast<std::size_t>(term.first_head + tile.rows->head)];
  if (term.alibi == AlibiForm::key_position) return add_key_positions(term, tile, slope);
  if (term.alibi == AlibiForm::causal && tile.max_distance <= 0) return;
  const T* const gates = gates_of(term, *tile.rows);
  const auto down = static_cast<T>(-slope);
  if (tile.keys->consecutive) {
    const LineSides sides = sides_of(term, tile);
    if (sides == LineSides::both) return add_whole_lines<LineSides::both>(tile, gates, down);
    if (sides == LineSides::clipped) return add_whole_lines<LineSides::clipped>(tile, gates, down);
    return add_whole_lines<LineSides::behind>(tile, gates, down);
  }
  for (std::int64_t i = 0; i < tile.rows->tile->count; ++i) {
    const std::int64_t position = tile.rows->positions[i];
    T* const scores = tile.scores + i * attend::kKeyTile;
    for (std::int64_t j = 0; j < tile.keys->count; ++j) {
      scores[j] += gate_at(gates, i) * down * static_cast<T>(line_length(term, position - tile.key_positions[j]));
    }
  }
}

// ---- Bands ----

/// Where key - query `offset` is in a band of the job, margins included.
inline std::int64_t band_index(const attend::BiasJob& term, std::int64_t offset) { return offset - term.low + attend::kBandMargin; }
inline std::int64_t clamped_index(const attend::BiasJob& term, std::int64_t offset) {
  return band_index(term, std::clamp(offset, term.low, term.high));
}

/// Whether all of these offsets have the value of one end of the band.
enum class BandPlace : std::uint8_t { before, inside, behind };
inline BandPlace place_in_band(const attend::BiasJob& term, std::int64_t first_offset, std::int64_t last_offset) {
  if (last_offset <= term.low) return BandPlace::before;
  return first_offset >= term.high ? BandPlace::behind : BandPlace::inside;
}
template <class T>
BandPlace tile_in_band(const attend::BiasJob& term, const ScoreTile<T>& tile) {
  return place_in_band(term, -tile.max_distance, -tile.min_distance);
}
inline std::int64_t end_index(const attend::BiasJob& term, BandPlace place) {
  return band_index(term, place == BandPlace::before ? term.low : term.high);
}

template <class T>
const T* band_of(const attend::BiasJob& term, std::int64_t head) {
  return static_cast<const T*>(term.values) + head * term.stride;
}

template <class T>
void add_band_row(const attend::BiasJob& term, const ScoreTile<T>& tile, std::int64_t row, T gate) {
  const T* const band = band_of<T>(term, tile.rows->head);
  T* const scores = tile.scores + row * attend::kKeyTile;
  const std::int64_t position = tile.rows->positions[row];
  if (!tile.keys->consecutive) {
    for (std::int64_t j = 0; j < tile.keys->count; ++j) scores[j] += gate * band[clamped_index(term, tile.key_positions[j] - position)];
    return;
  }
  const std::int64_t first = tile.key_positions[0] - position;
  const BandPlace place = place_in_band(term, first, first + tile.keys->count - 1);
  if (place != BandPlace::inside) return add_constant(gate * band[end_index(term, place)], scores);
  add_row(band + band_index(term, first), gate, scores);
}

/// A row by the formula.
template <class T>
struct FormulaRow {
  std::int64_t distances[attend::kKeyTile];
  double values[attend::kKeyTile];

  /// The numbers of a row of the tile.
  attend::BiasRow of(const ScoreTile<T>& tile, std::int64_t row, T* scratch) {
    const std::int64_t position = tile.rows->positions[row];
    const auto count = static_cast<std::size_t>(tile.keys->count);
    for (std::size_t j = 0; j < count; ++j) distances[j] = position - tile.key_positions[j];
    return {tile.rows->head, position, {distances, count}, reinterpret_cast<double*>(scratch)};
  }
};

template <class T>
void add_formula_row(const attend::BiasJob& term, const ScoreTile<T>& tile, std::int64_t row, T* scratch) {
  FormulaRow<T> formula;
  const T gate = gate_at(gates_of(term, *tile.rows), row);
  const attend::BiasRow distances = formula.of(tile, row, scratch);
  attend::bias_row_values(term, distances, {formula.values, distances.distances.size()});
  T* const scores = tile.scores + row * attend::kKeyTile;
  for (std::int64_t j = 0; j < tile.keys->count; ++j) scores[j] += gate * static_cast<T>(formula.values[j]);
}

#include "cpu/attention/terms/bias_fire.inl"

/// Rows by the band that begin a regular tile: all of them but for FIRE's queries beyond its length.
template <class T>
std::int64_t band_rows(const attend::BiasJob& term, const RowTile<T>& rows) {
  if (!term.fire.present) return rows.tile->count;
  std::int64_t count = 0;
  while (count < rows.tile->count && !beyond_length(term, rows.positions[count])) ++count;
  return count;
}

template <class T>
void add_bands(const attend::BiasJob& term, const ScoreTile<T>& tile, T* scratch) {
  const RowTile<T>& rows = *tile.rows;
  const T* const gates = gates_of(term, rows);
  const BandPlace place = tile_in_band(term, tile);
  if (place != BandPlace::inside && !term.fire.present) {
    const T value = band_of<T>(term, rows.head)[end_index(term, place)];
    if (value == 0) return;
    for (std::int64_t i = 0; i < rows.tile->count; ++i) add_constant(gate_at(gates, i) * value, tile.scores + i * attend::kKeyTile);
    return;
  }
  std::int64_t done = 0;
  if (tile.regular && place == BandPlace::inside) {
    const T* const values = band_of<T>(term, rows.head) + band_index(term, -tile.distance);
    done = add_skewed(BandValues<T>{values}, gates, band_rows(term, rows), tile.scores);
  }
  for (std::int64_t i = done; i < rows.tile->count; ++i) {
    if (!beyond_length(term, rows.positions[i])) {
      add_band_row(term, tile, i, gate_at(gates, i));
    } else if (term.fire.segments > 0) {
      add_fire_row(term, tile, i, gate_at(gates, i));
    } else {
      add_formula_row(term, tile, i, scratch);
    }
  }
}

template <class T>
void term_add(const attend::BiasJob& term, const ScoreTile<T>& tile, T* scratch) {
  if (term.form == attend::BiasForm::line) return add_lines(term, tile);
  if (term.form == attend::BiasForm::band) return add_bands(term, tile, scratch);
  for (std::int64_t i = 0; i < tile.rows->tile->count; ++i) add_formula_row(term, tile, i, scratch);
}

// ---- With the softmax ----

/// The line of a regular tile by key - query: row i, column j at line[kQueryTile - 1 - i + j].
template <LineSides sides, class T>
void fill_line(std::int64_t distance, T slope, T* line) {
  const Reg<T> first = set(static_cast<T>(distance + attend::kQueryTile - 1));
  for (int n = 0; n < kAddedLine; n += lanes<T>) store(mul(set(slope), line_lengths<sides, T>(first, n)), line + n);
}
template <class T>
AddedRows<T> added_line(const attend::BiasJob& term, const ScoreTile<T>& tile, T* line) {
  const double slope = term.source.slopes[static_cast<std::size_t>(term.first_head + tile.rows->head)];
  const auto down = static_cast<T>(-slope);
  const LineSides sides = sides_of(term, tile);
  if (sides == LineSides::both) fill_line<LineSides::both>(tile.distance, down, line);
  if (sides == LineSides::clipped) fill_line<LineSides::clipped>(tile.distance, down, line);
  if (sides == LineSides::behind) fill_line<LineSides::behind>(tile.distance, down, line);
  return {.data = line + attend::kQueryTile - 1, .step = -1};
}

/// Regular tiles without gates: a line, a band, or the value of a band's end.
template <class T>
AddedRows<T> term_added(const attend::BiasJob& term, const ScoreTile<T>& tile, T* /*scratch*/, T* line) {
  if (!tile.regular || term.gate != nullptr || term.fire.present) return {};
  if (term.form == attend::BiasForm::line && term.alibi != AlibiForm::key_position) return added_line(term, tile, line);
  if (term.form != attend::BiasForm::band) return {};
  const T* const band = band_of<T>(term, tile.rows->head);
  const BandPlace place = tile_in_band(term, tile);
  if (place == BandPlace::inside) return {.data = band + band_index(term, -tile.distance), .step = -1};
  fill(line, attend::kKeyTile, band[end_index(term, place)]);
  return {.data = line, .step = 0};
}

// ---- Certified skipping ----

/// |q_i| max |k| scale - slope (distance of the nearest key left) < maximum - slack for every row: then what is left out is below 2^-24 of
/// the row's sum, since there are at most n such keys, and the slack is ln(2^24 n).
template <class T>
bool term_ends(const attend::BiasJob& term, const RowTile<T>& rows, const T* maximum, std::int64_t key_tile) {
  if (term.bounds.norms == nullptr) return false;
  const attend::AttentionShape& shape = rows.job->shape;
  const auto key_tiles = static_cast<std::int64_t>(rows.job->key_tiles.size());
  const double slope = term.source.slopes[static_cast<std::size_t>(term.first_head + rows.head)];
  if (!(slope > 0)) return false;
  const double norm = term.bounds.norms[rows.head / shape.group() * key_tiles + key_tile] * rows.job->scale;
  const std::int64_t nearest = term.bounds.positions[key_tile];
  for (std::int64_t i = 0; i < rows.tile->count; ++i) {
    const std::int64_t r = rows.positions[i] - nearest;
    if (r <= 0) return false;
    const T* const q = rows.q + i * shape.padded_width;
    Reg<T> sum = zero<T>();
    for (std::int64_t c = 0; c < shape.padded_width; c += lanes<T>) sum = mul_add(load(q + c), load(q + c), sum);
    const double room = static_cast<double>(maximum[i]) - term.bounds.slack + slope * static_cast<double>(r);
    const double squared = static_cast<double>(reduce_sum(sum)) * norm * norm * (1 + 0x1p-10);  // the roundings of scores, too
    if (!(room > 0 && squared < room * room)) return false;
  }
  return true;
}

#include "cpu/attention/terms/bias_gradient.inl"
