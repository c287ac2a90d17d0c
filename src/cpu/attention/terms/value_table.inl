// SPDX-License-Identifier: Apache-2.0
// A table added to values: out_i += sum of p_ij table[row], by sums of probabilities a row of the table.

/// Sums are multiplied as they leave the ring, before `out` is at hand.
inline bool has_own_result(const attend::ValueTableJob& term) { return term.table.way == attend::TableWay::sliding; }

/// Forward: sums of probabilities times the table, to `out`.
template <class T>
TableSums<T> value_result(const attend::ValueTableJob& term, const RowTile<T>& rows, T* out, T* scratch) {
  const SumsTo<T> to = {.padded_width = term.table.padded_width,
                        .rows = term.table.rows.of<T>(rows.batch, rows.head),
                        .features = {nullptr, 0},
                        .result = {has_own_result(term) ? scratch + term.table.layout.result : out, term.table.padded_width},
                        .table = {},
                        .shift = nullptr,
                        .column_sums = nullptr};
  return {&term.table, rows.tile->count, buffers_of(term.table, scratch), to};
}

template <class T>
void term_begin(const attend::ValueTableJob& term, const RowTile<T>& rows, T* scratch) {
  const TableSums<T> sums = value_result<T>(term, rows, nullptr, scratch);
  begin_sums(sums.buffers, sums.queries);
  if (has_own_result(term)) clear_rows(sums.to.result, sums.queries, term.table.padded_width);
}

constexpr bool takes_probabilities(const attend::ValueTableJob& /*term*/) { return true; }
template <class T>
void term_rescale(const attend::ValueTableJob& term, const RowTile<T>& rows, const T* factors, T* scratch) {
  rescale_sums(value_result<T>(term, rows, nullptr, scratch), factors);
}

template <class T>
void term_take(const attend::ValueTableJob& term, const ScoreTile<T>& probabilities, T* scratch) {
  take_sums(value_result<T>(term, *probabilities.rows, nullptr, scratch), probabilities);
}

template <class T>
void term_finish(const attend::ValueTableJob& term, const RowTile<T>& rows, T* out, T* scratch) {
  const TableSums<T> sums = value_result(term, rows, out, scratch);
  finish_sums(sums);
  for (std::int64_t at = 0; has_own_result(term) && at < sums.queries * term.table.padded_width; at += lanes<T>) {
    store(add(load(out + at), load(sums.to.result.data + at)), out + at);
  }
}

// ---- Backward: <do_i, table[row]> for dp, and sums of probabilities times do for the table's gradient ----

template <class T>
RowsOf<const T> value_features(const RowTile<T>& rows, const BackwardTile<T>& backward) {
  return {backward.out_gradient, rows.job->shape.padded_value_width};
}
template <class T>
TableSums<T> value_sums(const attend::ValueTableJob& term, const RowTile<T>& rows, const BackwardTile<T>& backward, T* scratch) {
  const std::int64_t padded_width = term.table.padded_width;
  const SumsTo<T> to = {.padded_width = padded_width,
                        .rows = nullptr,
                        .features = value_features(rows, backward),
                        .result = {nullptr, padded_width},
                        .table = slot_table<T>(*rows.job, term.table.sums, term.table.slot_rows, backward.slot, padded_width),
                        .shift = nullptr,
                        .column_sums = nullptr};
  return {&term.table, rows.tile->count, buffers_of(term.table, scratch), to};
}

template <class T>
void term_backward_begin(const attend::ValueTableJob& term, const RowTile<T>& rows, const BackwardTile<T>& /*backward*/, T* scratch) {
  const TableBuffers<T> buffers = buffers_of(term.table, scratch);
  begin_products(buffers);
  if (term.table.sums != nullptr) begin_sums(buffers, rows.tile->count);
}
template <class T>
void term_backward_values(const attend::ValueTableJob& term, const ScoreTile<T>& dp, const BackwardTile<T>& backward, T* scratch) {
  add_products(TableMeeting<T>{&term.table, dp.rows, value_features(*dp.rows, backward), buffers_of(term.table, scratch)}, dp);
}
template <class T>
void term_backward_take(const attend::ValueTableJob& term, const ScoreTile<T>& probabilities, const BackwardTile<T>& backward, T* scratch) {
  if (term.table.sums != nullptr) take_sums(value_sums(term, *probabilities.rows, backward, scratch), probabilities);
}
template <class T>
void term_backward_finish(const attend::ValueTableJob& term, const RowTile<T>& rows, const BackwardTile<T>& backward, T* scratch) {
  if (term.table.sums != nullptr) finish_sums(value_sums(term, rows, backward, scratch));
}
