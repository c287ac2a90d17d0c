// SPDX-License-Identifier: Apache-2.0
// CoPE: gates sigmoid(q . k) are added up from the query backwards, and the sum says between which rows of the table a score lies. Once
// the sum has passed the last row for every query of a tile, earlier keys need no gates.

template <class T>
struct CopeRows {
  T* running;
  T* products;
  T* steps;
  T* gates;
  T* counts;
  T* carry;
  T* gradients;
};
template <class T>
CopeRows<T> cope_rows(const attend::CopeJob& term, T* scratch) {
  const attend::CopeLayout& at = term.layout;
  return {scratch + at.running, scratch + at.products, scratch + at.steps,    scratch + at.gates,
          scratch + at.counts,  scratch + at.carry,    scratch + at.gradients};
}

/// Products with every row, and from each to the next; from the last one nowhere.
template <class T>
void term_begin(const attend::CopeJob& term, const RowTile<T>& rows, T* scratch) {
  const CopeRows<T> s = cope_rows(term, scratch);
  const std::int64_t width = rows.job->shape.padded_width;
  scratch[term.layout.backward] = 0;
  std::fill_n(s.running, attend::kQueryTile, T{0});
  gemm(Gemm<T>{.m = rows.tile->count,
               .n = term.padded_rows,
               .k = rows.job->shape.width,
               .a = rows.q,
               .a_row = width,
               .a_k = 1,
               .b = static_cast<const T*>(term.columns) + (term.shares_heads ? 0 : rows.head * width * term.padded_rows),
               .b_row = term.padded_rows,
               .c = s.products,
               .c_row = term.padded_rows,
               .add = false});
  for (std::int64_t i = 0; i < rows.tile->count; ++i) {
    const T* const from = s.products + i * term.padded_rows;
    T* const to = s.steps + i * term.padded_rows;
    for (std::int64_t r = 0; r + 1 < term.rows; ++r) to[r] = from[r + 1] - from[r];
    to[term.rows - 1] = 0;
  }
}

/// 1 / (1 + e^-x); no exponential overflows.
template <class T>
HWY_INLINE Reg<T> sigmoid(Reg<T> x) {
  const Reg<T> e = exponential<T>(neg(absolute(x)));
  const Reg<T> s = div(set(T{1}), add(set(T{1}), e));
  return if_then_else(less(x, zero<T>()), mul(e, s), s);
}

/// The tile's number within its sequence.
template <class T>
std::int64_t key_tile_number(const ScoreTile<T>& tile) {
  const attend::AttentionJob& job = *tile.rows->job;
  return tile.keys - job.key_tiles.data() - job.sequences[static_cast<std::size_t>(tile.keys->sequence)].first_key_tile;
}

/// Keys of a prefix are seen by queries before them, but not counted.
template <class T>
void clear_ahead(const ScoreTile<T>& gates) {
  const std::int64_t prefix = gates.rows->job->sequences[static_cast<std::size_t>(gates.keys->sequence)].prefix;
  if (gates.min_distance >= 0 || gates.keys->min_position >= prefix) return;
  for (std::int64_t i = 0; i < gates.rows->tile->count; ++i) {
    for (std::int64_t j = 0; j < gates.keys->count; ++j) {
      if (gates.key_positions[j] > gates.rows->positions[i]) gates.scores[i * attend::kKeyTile + j] = 0;
    }
  }
}

/// Fills `gates`, 0 where a key is not counted.
template <class T>
void cope_gates(const attend::CopeJob& term, const ScoreTile<T>& gates) {
  const RowTile<T>& rows = *gates.rows;
  const attend::AttentionJob& job = *rows.job;
  const std::int64_t width = job.shape.padded_width;
  const std::int64_t panel =
      rows.head / job.shape.group() * static_cast<std::int64_t>(job.key_tiles.size()) + (gates.keys - job.key_tiles.data());
  gemm(Gemm<T>{.m = rows.tile->count,
               .n = attend::kKeyTile,
               .k = job.shape.width,
               .a = rows.q,
               .a_row = width,
               .a_k = 1,
               .b = static_cast<const T*>(term.keys_transposed) + panel * width * attend::kKeyTile,
               .b_row = attend::kKeyTile,
               .c = gates.scores,
               .c_row = attend::kKeyTile,
               .add = false});
  const Reg<T> scale = set(static_cast<T>(term.gate_scale));
  for (std::int64_t at = 0; at < rows.tile->count * attend::kKeyTile; at += lanes<T>) {
    store(sigmoid<T>(mul(scale, load(gates.scores + at))), gates.scores + at);
  }
  if (mask_of(job, *rows.tile, *gates.keys) != TileMask::all || gates.keys->count < attend::kKeyTile) mask_tile(gates, T{0});
  clear_ahead(gates);
}

/// out = in (rows, kKeyTile) times a triangle of ones, and each row's number of `added`.
template <class T>
void add_up(const RowTile<T>& rows, const T* in, const void* triangle, const T* added, T* out) {
  for (std::int64_t i = 0; i < rows.tile->count; ++i) fill(out + i * attend::kKeyTile, attend::kKeyTile, added[i]);
  gemm(Gemm<T>{.m = rows.tile->count,
               .n = attend::kKeyTile,
               .k = attend::kKeyTile,
               .a = in,
               .a_row = attend::kKeyTile,
               .a_k = 1,
               .b = static_cast<const T*>(triangle),
               .b_row = attend::kKeyTile,
               .c = out,
               .c_row = attend::kKeyTile,
               .add = true});
}

template <class T>
bool is_saturated(const attend::CopeJob& term, const RowTile<T>& rows, const T* running) {
  const auto last = static_cast<T>(term.rows - 1);
  return std::all_of(running, running + rows.tile->count, [last](T x) { return x >= last; });
}

/// Between which rows a count lies: lower and part of the way to the next.
template <class T>
struct CopePlace {
  std::int64_t lower;
  T part;
};
template <class T>
HWY_INLINE CopePlace<T> cope_place(T count) {
  const auto lower = static_cast<std::int64_t>(count);
  return {lower, count - static_cast<T>(lower)};
}

/// Gates and counts of a tile, and the sum of its gates added to `running`.
template <class T>
void count_gates(const attend::CopeJob& term, const ScoreTile<T>& gates, T* running, T* counts) {
  cope_gates(term, gates);
  add_up(*gates.rows, gates.scores, term.sum_later, running, counts);
  for (std::int64_t i = 0; i < gates.rows->tile->count; ++i) running[i] = counts[i * attend::kKeyTile];
}

template <class T>
void term_add(const attend::CopeJob& term, const ScoreTile<T>& tile, T* scratch) {
  const CopeRows<T> s = cope_rows(term, scratch);
  const RowTile<T>& rows = *tile.rows;
  const bool backward = scratch[term.layout.backward] != 0;
  if (backward) std::copy_n(scratch + term.layout.later + key_tile_number(tile) * attend::kQueryTile, attend::kQueryTile, s.running);
  if (is_saturated(term, rows, s.running)) {
    for (std::int64_t i = 0; i < rows.tile->count; ++i) {
      add_to_tile_row(s.products[i * term.padded_rows + term.rows - 1], tile.scores + i * attend::kKeyTile);
    }
    return;
  }
  HWY_ALIGN T sums[attend::kQueryTile];
  std::copy_n(s.running, attend::kQueryTile, sums);
  count_gates(term, score_tile(rows, *tile.keys, s.gates), sums, s.counts);
  if (!backward) std::copy_n(sums, attend::kQueryTile, s.running);  // there, term_gradient asks again whether the tile is saturated
  const auto last = static_cast<T>(term.rows - 1);
  for (std::int64_t i = 0; i < rows.tile->count; ++i) {
    T* const counts = s.counts + i * attend::kKeyTile;
    T* const row = tile.scores + i * attend::kKeyTile;
    for (std::int64_t j = 0; j < attend::kKeyTile; ++j) {
      counts[j] = std::min(last, counts[j]);  // last for NaN, which no row has: the score is NaN by q . k anyway
      const CopePlace<T> at = cope_place(counts[j]);
      row[j] += s.products[i * term.padded_rows + at.lower] + at.part * s.steps[i * term.padded_rows + at.lower];
    }
  }
}

/// The forward's walk over the keys, for the sums that it had at each tile.
template <class T>
void term_backward_begin(const attend::CopeJob& term, const RowTile<T>& rows, const BackwardTile<T>& /*backward*/, T* scratch) {
  term_begin(term, rows, scratch);
  const CopeRows<T> s = cope_rows(term, scratch);
  const attend::AttentionJob& job = *rows.job;
  const attend::Sequence& sequence = job.sequences[static_cast<std::size_t>(rows.tile->sequence)];
  T* const later = scratch + term.layout.later;
  for (std::int64_t k = sequence.end_key_tile - 1; k >= sequence.first_key_tile; --k) {
    const attend::TokenTile& keys = job.key_tiles[static_cast<std::size_t>(k)];
    std::copy_n(s.running, attend::kQueryTile, later + (k - sequence.first_key_tile) * attend::kQueryTile);
    if (mask_of(job, *rows.tile, keys) == TileMask::none || is_saturated(term, rows, s.running)) continue;
    count_gates(term, score_tile(rows, keys, s.gates), s.running, s.counts);
  }
  scratch[term.layout.backward] = 1;
  std::fill_n(s.carry, attend::kQueryTile, T{0});
  std::fill_n(s.gradients, attend::kQueryTile * term.padded_rows, T{0});
}

/// The gradient by counts, in their place, and that by products; from ds.
template <class T>
void take_counts(const attend::CopeJob& term, const ScoreTile<T>& ds, const CopeRows<T>& s) {
  for (std::int64_t i = 0; i < ds.rows->tile->count; ++i) {
    T* const counts = s.counts + i * attend::kKeyTile;
    T* const gradients = s.gradients + i * term.padded_rows;
    for (std::int64_t j = 0; j < attend::kKeyTile; ++j) {
      const CopePlace<T> at = cope_place(counts[j]);
      const T x = ds.scores[i * attend::kKeyTile + j];
      gradients[at.lower] += x * (1 - at.part);
      counts[j] = 0;  // between a row and itself there is no slope
      if (at.part == 0) continue;
      gradients[at.lower + 1] += x * at.part;
      counts[j] = x * s.steps[i * term.padded_rows + at.lower];
    }
  }
}

/// From the gradient by counts to that by q . k: a gate is counted by every key that is not after it.
template <class T>
void gate_gradients(const attend::CopeJob& term, const RowTile<T>& rows, const CopeRows<T>& s, T* out) {
  add_up(rows, s.counts, term.sum_earlier, s.carry, out);
  const Reg<T> scale = set(static_cast<T>(term.gate_scale));
  for (std::int64_t i = 0; i < rows.tile->count; ++i) {
    T* const row = out + i * attend::kKeyTile;
    s.carry[i] = row[attend::kKeyTile - 1];
    for (std::int64_t j = 0; j < attend::kKeyTile; j += lanes<T>) {
      const Reg<T> gate = load(s.gates + i * attend::kKeyTile + j);
      store(mul(mul(load(row + j), scale), mul(gate, sub(set(T{1}), gate))), row + j);
    }
  }
}

template <class T>
T row_sum(const T* row) {
  Reg<T> sum = zero<T>();
  for (std::int64_t j = 0; j < attend::kKeyTile; j += lanes<T>) sum = add(sum, load(row + j));
  return reduce_sum(sum);
}

template <class T>
void term_gradient(const attend::CopeJob& term, const ScoreTile<T>& ds, const BackwardTile<T>& backward, T* scratch) {
  const CopeRows<T> s = cope_rows(term, scratch);
  const RowTile<T>& rows = *ds.rows;
  const attend::AttentionShape& shape = rows.job->shape;
  if (is_saturated(term, rows, s.running)) {
    for (std::int64_t i = 0; i < rows.tile->count; ++i)
      s.gradients[i * term.padded_rows + term.rows - 1] += row_sum(ds.scores + i * attend::kKeyTile);
    return;
  }
  take_counts(term, ds, s);
  T* const by_scores = scratch + term.layout.by_scores;
  gate_gradients(term, rows, s, by_scores);
  const std::int64_t width = shape.padded_width;
  const T* const keys = static_cast<const T*>(term.keys) + rows.batch * term.key_strides[0] +
                        rows.head / shape.group() * term.key_strides[1] + ds.keys->first * width;
  const std::int64_t count = rows.tile->count;
  if (backward.q_gradient != nullptr) {
    gemm(Gemm<T>{.m = count,
                 .n = width,
                 .k = ds.keys->count,
                 .a = by_scores,
                 .a_row = attend::kKeyTile,
                 .a_k = 1,
                 .b = keys,
                 .b_row = width,
                 .c = backward.q_gradient,
                 .c_row = width,
                 .add = true});
  }
  if (backward.k_gradient == nullptr) return;
  gemm(Gemm<T>{.m = ds.keys->count,
               .n = width,
               .k = count,
               .a = by_scores,
               .a_row = 1,
               .a_k = attend::kKeyTile,
               .b = rows.q,
               .b_row = width,
               .c = backward.k_gradient,
               .c_row = width,
               .add = true});
}

template <class T>
void term_backward_finish(const attend::CopeJob& term, const RowTile<T>& rows, const BackwardTile<T>& backward, T* scratch) {
  const CopeRows<T> s = cope_rows(term, scratch);
  const std::int64_t width = rows.job->shape.padded_width;
  const std::int64_t count = rows.tile->count;
  if (backward.q_gradient != nullptr) {
    gemm(Gemm<T>{.m = count,
                 .n = width,
                 .k = term.rows,
                 .a = s.gradients,
                 .a_row = term.padded_rows,
                 .a_k = 1,
                 .b = static_cast<const T*>(term.packed) + (term.shares_heads ? 0 : rows.head * term.rows * width),
                 .b_row = width,
                 .c = backward.q_gradient,
                 .c_row = width,
                 .add = true});
  }
  if (term.sums == nullptr) return;
  gemm(Gemm<T>{.m = term.rows,
               .n = width,
               .k = count,
               .a = s.gradients,
               .a_row = 1,
               .a_k = term.padded_rows,
               .b = rows.q,
               .b_row = width,
               .c = static_cast<T*>(term.sums) + backward.slot * term.rows * width,
               .c_row = width,
               .add = true});
}
