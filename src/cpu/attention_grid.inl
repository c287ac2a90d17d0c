// SPDX-License-Identifier: Apache-2.0
// A bias for every pair of offsets in an image: rows of the packed table read in the order of keys, gradients added a grid row at a time.

/// Where a token lies. Division by the width is dear: neighbours step.
struct GridPlace {
  std::int64_t y = 0;
  std::int64_t x = 0;
};
inline GridPlace grid_place(std::int64_t token, std::int64_t width) { return {token / width, token % width}; }
/// The place of the next token of a list, from that of the last one.
inline GridPlace next_place(GridPlace last, std::int64_t step, std::int64_t token, std::int64_t width) {
  if (step != 1) return grid_place(token, width);
  return last.x + 1 < width ? GridPlace{last.y, last.x + 1} : GridPlace{last.y + 1, 0};
}

/// body(row, token of the grid or -1 for the class token, its place) for every query of a tile.
template <class T, class Body>
HWY_INLINE void each_grid_query(const job::GridJob& term, const RowTile<T>& rows, const Body& body) {
  const std::int64_t first = term.class_token ? 1 : 0;
  std::int64_t last = INT64_MIN;
  GridPlace place;
  for (std::int64_t i = 0; i < rows.tile->count; ++i) {
    const std::int64_t token = rows.positions[i] - first;
    if (token >= 0) {
      place = next_place(place, last < 0 ? 0 : token - last, token, term.width);
      last = token;
    }
    body(i, token, place);
  }
}

/// The biases of one query by the positions of keys: bias[position].
template <class T>
HWY_INLINE const T* grid_biases(const job::GridJob& term, const RowTile<T>& rows, GridPlace place) {
  const std::int64_t head = term.shares_heads ? 0 : rows.head;
  return static_cast<const T*>(term.table) + (head * term.width + place.x) * term.row_size + job::kGridMargin +
         (term.height - 1 - place.y) * term.width - (term.class_token ? 1 : 0);
}

/// row[j] += bias[first + j]; padding too.
template <class T>
HWY_INLINE void add_biases(const T* bias, T* row) {
  for (std::int64_t j = 0; j < job::kKeyTile; j += lanes<T>) store(add(load(row + j), load(bias + j)), row + j);
}

/// The class token's row, and its column where the tile has one.
template <class T>
void add_class_biases(const job::GridJob& term, const ScoreTile<T>& tile, std::int64_t i, std::int64_t token) {
  const T* const biases = static_cast<const T*>(term.class_table) + (term.shares_heads ? 0 : 3 * tile.rows->head);
  T* const row = tile.scores + i * job::kKeyTile;
  for (std::int64_t j = 0; j < tile.keys->count; ++j) {
    if (tile.key_positions[j] == 0) {
      row[j] += token < 0 ? biases[2] : biases[1];
    } else if (token < 0) {
      row[j] += biases[0];
    }
  }
}

template <class T>
void term_add(const job::GridJob& term, const ScoreTile<T>& tile, T* /*scratch*/) {
  const bool has_class_key = term.class_token && tile.keys->min_position == 0;
  const std::int64_t first = term.class_token ? 1 : 0;
  each_grid_query(term, *tile.rows, [&](std::int64_t i, std::int64_t token, GridPlace place) {
    T* const row = tile.scores + i * job::kKeyTile;
    if (token >= 0) {
      const T* const biases = grid_biases(term, *tile.rows, place);
      if (tile.keys->consecutive) {
        const T kept = row[0];
        add_biases(biases + tile.keys->min_position, row);
        if (has_class_key) row[0] = kept;  // the one key that is not in the grid
      } else {
        for (std::int64_t j = 0; j < tile.keys->count; ++j) {
          if (tile.key_positions[j] >= first) row[j] += biases[tile.key_positions[j]];
        }
      }
    }
    if (token < 0 || has_class_key) add_class_biases(term, tile, i, token);
  });
}

/// sums[j] += row[j], j below count.
template <class T>
HWY_INLINE void add_run(const T* row, T* sums, std::int64_t count) {
  std::int64_t j = 0;
  for (; j + lanes<T> <= count; j += lanes<T>) store(add(load(sums + j), load(row + j)), sums + j);
  for (; j < count; ++j) sums[j] += row[j];
}

/// Neighbours along a grid row among the keys of a tile: columns first to end - 1, the first one at `place`.
struct GridRun {
  std::int64_t first;
  std::int64_t end;
  GridPlace place;
};
/// The run that begins at a column, which is not that of a class token.
template <class T>
GridRun grid_run(const job::GridJob& term, const ScoreTile<T>& tile, std::int64_t column) {
  const std::int64_t token = tile.key_positions[column] - (term.class_token ? 1 : 0);
  GridRun run = {column, column + 1, grid_place(token, term.width)};
  const std::int64_t most = std::min(tile.keys->count, column + term.width - run.place.x);
  while (run.end < most && tile.key_positions[run.end] == tile.key_positions[column] + run.end - column) ++run.end;
  return run;
}

/// The run's part of every query's gradient. Sums go by key - query, so that along a run they are neighbours.
template <class T>
void add_run_gradients(const job::GridJob& term, const ScoreTile<T>& ds, const GridRun& run, T* sums) {
  const std::int64_t row_size = 2 * term.width - 1;
  T* const class_sums = sums + term.sum_size - 3;
  each_grid_query(term, *ds.rows, [&](std::int64_t i, std::int64_t token, GridPlace place) {
    const T* const row = ds.scores + i * job::kKeyTile + run.first;
    if (token < 0) {
      for (std::int64_t j = 0; j < run.end - run.first; ++j) class_sums[0] += row[j];
    } else {
      const std::int64_t at = (run.place.y - place.y + term.height - 1) * row_size + run.place.x - place.x + term.width - 1;
      add_run(row, sums + at, run.end - run.first);
    }
  });
}

template <class T>
void term_gradient(const job::GridJob& term, const ScoreTile<T>& ds, const BackwardTile<T>& backward, T* /*scratch*/) {
  if (term.sums == nullptr) return;
  T* const sums = static_cast<T*>(term.sums) + backward.slot * term.sum_size;
  for (std::int64_t column = 0; column < ds.keys->count;) {
    if (term.class_token && ds.key_positions[column] == 0) {
      for (std::int64_t i = 0; i < ds.rows->tile->count; ++i) {
        sums[term.sum_size - (ds.rows->positions[i] == 0 ? 1 : 2)] += ds.scores[i * job::kKeyTile + column];
      }
      ++column;
      continue;
    }
    const GridRun run = grid_run(term, ds, column);
    add_run_gradients(term, ds, run, sums);
    column = run.end;
  }
}
