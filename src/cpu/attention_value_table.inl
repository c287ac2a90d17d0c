// SPDX-License-Identifier: Apache-2.0
// A table added to values: out_i += sum of p_ij table[row], by sums of probabilities a row of the table.

/// Forward: sums of probabilities times the table, to `out` at the end, or on the way to a buffer of the term's own.
template <class T>
SumsTo<T> value_result(const job::ValueTableJob& term, const RowTile<T>& rows, T* out) {
  return {.places = term.table.places,
          .rows = term.table.rows.of<T>(rows.batch, rows.head),
          .features = {nullptr, 0},
          .result = {out, term.table.places},
          .table = nullptr,
          .shift = nullptr,
          .column_sums = nullptr};
}

template <class T>
void term_begin(const job::ValueTableJob& term, const RowTile<T>& rows, T* scratch) {
  const std::int64_t queries = rows.tile->count;
  begin_sums(term.table, queries, buffers_of(term.table, scratch));
  if (term.table.way == job::TableWay::sliding) std::fill_n(scratch + term.table.layout.result, queries * term.table.places, T{0});
}

template <class T>
void term_rescale(const job::ValueTableJob& term, const RowTile<T>& rows, const T* factors, T* scratch) {
  const std::int64_t queries = rows.tile->count;
  rescale_sums(term.table, queries, factors, buffers_of(term.table, scratch));
  if (term.table.way != job::TableWay::sliding) return;
  T* row = scratch + term.table.layout.result;
  for (std::int64_t i = 0; i < queries; ++i, row += term.table.places) {
    for (std::int64_t d = 0; d < term.table.places; d += lanes<T>) store(mul(load(row + d), set(factors[i])), row + d);
  }
}

template <class T>
void term_take(const job::ValueTableJob& term, const ScoreTile<T>& probabilities, T* scratch) {
  take_sums(term.table, probabilities, buffers_of(term.table, scratch),
            value_result(term, *probabilities.rows, scratch + term.table.layout.result));
}

template <class T>
void term_finish(const job::ValueTableJob& term, const RowTile<T>& rows, T* out, T* scratch) {
  const std::int64_t queries = rows.tile->count;
  const bool sliding = term.table.way == job::TableWay::sliding;
  T* const own = scratch + term.table.layout.result;
  finish_sums(term.table, queries, buffers_of(term.table, scratch), value_result(term, rows, sliding ? own : out));
  for (std::int64_t at = 0; sliding && at < queries * term.table.places; at += lanes<T>) {
    store(add(load(out + at), load(own + at)), out + at);
  }
}

/// Backward: <do_i, table[row]> for dp, and sums of probabilities times do for the table's gradient.
template <class T>
RowsOf<const T> value_features(const RowTile<T>& rows, const BackwardTile<T>& backward) {
  return {backward.out_gradient, rows.job->shape.padded_value_width};
}
template <class T>
SumsTo<T> value_sums(const job::ValueTableJob& term, const RowTile<T>& rows, const BackwardTile<T>& backward) {
  const std::int64_t places = term.table.places;
  return {.places = places,
          .rows = nullptr,
          .features = value_features(rows, backward),
          .result = {nullptr, places},
          .table = static_cast<T*>(term.table.sums) + backward.slot * term.table.row_count * places,
          .shift = nullptr,
          .column_sums = nullptr};
}

template <class T>
void term_backward_begin(const job::ValueTableJob& term, const RowTile<T>& rows, const BackwardTile<T>& backward, T* scratch) {
  const TableBuffers<T> s = buffers_of(term.table, scratch);
  begin_products(term.table, rows, value_features(rows, backward), s);
  if (term.table.sums != nullptr) begin_sums(term.table, rows.tile->count, s);
}
template <class T>
void term_backward_values(const job::ValueTableJob& term, const ScoreTile<T>& dp, const BackwardTile<T>& backward, T* scratch) {
  add_products(term.table, dp, value_features(*dp.rows, backward), buffers_of(term.table, scratch));
}
template <class T>
void term_backward_take(const job::ValueTableJob& term, const ScoreTile<T>& probabilities, const BackwardTile<T>& backward, T* scratch) {
  if (term.table.sums == nullptr) return;
  take_sums(term.table, probabilities, buffers_of(term.table, scratch), value_sums(term, *probabilities.rows, backward));
}
template <class T>
void term_backward_finish(const job::ValueTableJob& term, const RowTile<T>& rows, const BackwardTile<T>& backward, T* scratch) {
  if (term.table.sums == nullptr) return;
  finish_sums(term.table, rows.tile->count, buffers_of(term.table, scratch), value_sums(term, rows, backward));
}
