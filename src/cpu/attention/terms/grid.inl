// SPDX-License-Identifier: Apache-2.0
// A bias for every pair of offsets in an image. Keys that are neighbours along a grid row read neighbours of the table: such runs are
// written one after the other into a row, each with whole registers, the next one over what was too much, and the row is added to scores.

/// The code of a token's place; see attend::GridJob. Division by the width is dear: neighbours step.
struct GridCodes {
  std::int64_t width;
  std::int64_t first;  // position of the grid's first token
  std::int64_t position = INT64_MIN / 2;
  std::int64_t x = 0;
  std::int64_t code = 0;

  std::int64_t of(std::int64_t at) {
    if (at == position + 1 && x + 1 < width) {
      ++x;
      ++code;
    } else {
      x = (at - first) % width;
      code = (at - first) / width * (2 * width - 1) + x;
    }
    position = at;
    return code;
  }
};
inline GridCodes grid_codes(const attend::GridJob& term) { return {.width = term.width, .first = term.class_token ? 1 : 0}; }

/// Keys of a tile that are neighbours along a grid row.
struct GridRun {
  std::int64_t column;
  std::int64_t count;
  std::int64_t code;  // of the first
};
struct GridRuns {
  std::int64_t count = 0;
  std::int64_t class_count = 0;
  GridRun runs[attend::kKeyTile];
  std::int64_t class_columns[attend::kKeyTile];  // keys that are the class token

  /// One run that is the whole tile.
  bool is_plain() const { return count == 1 && class_count == 0 && runs[0].count == attend::kKeyTile; }
};
template <class T>
void find_runs(const attend::GridJob& term, const ScoreTile<T>& tile, GridRuns& out) {
  GridCodes codes = grid_codes(term);
  GridRun* run = nullptr;
  for (std::int64_t j = 0; j < tile.keys->count; ++j) {
    if (term.class_token && tile.key_positions[j] == 0) {
      out.class_columns[out.class_count++] = j;
      run = nullptr;
      continue;
    }
    const std::int64_t code = codes.of(tile.key_positions[j]);
    // Codes of different grid rows are at least the width apart.
    if (run != nullptr && code == run->code + run->count) {
      ++run->count;
    } else {
      run = out.runs + out.count++;
      *run = {j, 1, code};
    }
  }
}

constexpr std::int64_t kGridRow = attend::kKeyTile + attend::kGridMargin;

/// The biases of a query to the keys of the runs. from: of the key at code 0.
template <class T>
HWY_INLINE void copy_runs(const GridRuns& runs, const T* from, T* row) {
  for (std::int64_t n = 0; n < runs.count; ++n) {
    const GridRun& run = runs.runs[n];
    const T* const in = from + run.code;
    T* const out = row + run.column;
    for (std::int64_t j = 0; j < run.count; j += lanes<T>) store(load(in + j), out + j);
  }
}

/// row[j] += bias[j]; padding too.
template <class T>
HWY_INLINE void add_biases(const T* bias, T* row) {
  for (std::int64_t j = 0; j < attend::kKeyTile; j += lanes<T>) store(add(load(row + j), load(bias + j)), row + j);
}

/// The biases of a query to the key at code 0.
template <class T>
HWY_INLINE const T* grid_biases(const attend::GridJob& term, const RowTile<T>& rows, std::int64_t code) {
  const std::int64_t head = term.shares_heads ? 0 : rows.head;
  return static_cast<const T*>(term.table) + head * (term.rows + attend::kGridMargin) + term.origin - code;
}

/// The biases of a query to the keys of a tile, (kGridRow): those of the class token are three numbers.
template <class T>
HWY_INLINE void grid_row(const attend::GridJob& term, const RowTile<T>& rows, const GridRuns& runs, std::int64_t code, T* row) {
  const T* const of_class = static_cast<const T*>(term.class_table) + (term.shares_heads ? 0 : 3 * rows.head);
  if (code < 0) {
    std::fill_n(row, attend::kKeyTile, of_class[0]);
  } else {
    copy_runs(runs, grid_biases(term, rows, code), row);
  }
  for (std::int64_t n = 0; n < runs.class_count; ++n) row[runs.class_columns[n]] = of_class[code < 0 ? 2 : 1];
}

/// Codes of the tile's queries; -1: the class token.
template <class T>
void query_codes(const attend::GridJob& term, const RowTile<T>& rows, std::int64_t* out) {
  GridCodes codes = grid_codes(term);
  for (std::int64_t i = 0; i < rows.tile->count; ++i) {
    out[i] = term.class_token && rows.positions[i] == 0 ? -1 : codes.of(rows.positions[i]);
  }
}

template <class T>
void add_grid_rows(const attend::GridJob& term, const ScoreTile<T>& tile, const GridRuns& runs, const std::int64_t* codes) {
  constexpr std::int64_t kAtOnce = 8;  // a row that was just written in pieces is slow to read
  HWY_ALIGN T biases[kAtOnce * kGridRow];
  if (tile.keys->count < attend::kKeyTile) std::fill_n(biases, kAtOnce * kGridRow, T{0});
  const std::int64_t count = tile.rows->tile->count;
  for (std::int64_t i = 0; i < count; i += kAtOnce) {
    const std::int64_t end = std::min(count, i + kAtOnce);
    for (std::int64_t k = i; k < end; ++k) grid_row(term, *tile.rows, runs, codes[k], biases + (k - i) * kGridRow);
    for (std::int64_t k = i; k < end; ++k) add_biases(biases + (k - i) * kGridRow, tile.scores + k * attend::kKeyTile);
  }
}

template <class T>
void term_add(const attend::GridJob& term, const ScoreTile<T>& tile, T* /*scratch*/) {
  std::int64_t codes[attend::kQueryTile];
  GridRuns runs;
  find_runs(term, tile, runs);
  query_codes(term, *tile.rows, codes);
  const bool has_class_query = term.class_token && tile.rows->tile->min_position == 0;
  if (!runs.is_plain() || has_class_query) return add_grid_rows(term, tile, runs, codes);
  for (std::int64_t i = 0; i < tile.rows->tile->count; ++i) {
    add_biases(grid_biases(term, *tile.rows, codes[i]) + runs.runs[0].code, tile.scores + i * attend::kKeyTile);
  }
}

/// sums[j] += row[j], j below count; beyond, up to a register, 0 is added.
template <class T>
HWY_INLINE void add_run(const T* row, T* sums, std::int64_t count) {
  std::int64_t j = 0;
  for (; j + lanes<T> <= count; j += lanes<T>) store(add(load(sums + j), load(row + j)), sums + j);
  if (j == count) return;
  const auto wanted = less(iota(T{0}), set(static_cast<T>(count - j)));
  store(add(load(sums + j), if_then_else(wanted, load(row + j), zero<T>())), sums + j);
}

template <class T>
void term_gradient(const attend::GridJob& term, const ScoreTile<T>& ds, const BackwardTile<T>& backward, T* /*scratch*/) {
  if (term.sums == nullptr) return;
  T* const sums = static_cast<T*>(term.sums) + backward.slot * term.sum_size;
  T* const of_class = sums + term.sum_size - 3;
  std::int64_t codes[attend::kQueryTile];
  GridRuns runs;
  find_runs(term, ds, runs);
  query_codes(term, *ds.rows, codes);
  HWY_ALIGN T row[kGridRow] = {};  // registers that are loaded beyond a tile's row
  for (std::int64_t i = 0; i < ds.rows->tile->count; ++i) {
    std::copy_n(ds.scores + i * attend::kKeyTile, attend::kKeyTile, row);
    for (std::int64_t n = 0; n < runs.count; ++n) {
      const GridRun& run = runs.runs[n];
      if (codes[i] >= 0) {
        add_run(row + run.column, sums + term.origin + run.code - codes[i], run.count);
      } else {
        for (std::int64_t j = 0; j < run.count; ++j) of_class[0] += row[run.column + j];
      }
    }
    for (std::int64_t n = 0; n < runs.class_count; ++n) of_class[codes[i] < 0 ? 2 : 1] += row[runs.class_columns[n]];
  }
}
