// SPDX-License-Identifier: Apache-2.0
// A query-side table (Shaw, DeBERTa c2p): scale (features + shift) . table[row].

// clang-format off
#include "cpu/attention/terms/table_windows.inl"
#include "cpu/attention/terms/table_sums.inl"
// clang-format on

/// What meets the table: q itself, or a copy in scratch.
template <class T>
RowsOf<const T> query_features(const attend::QueryTableJob& term, const RowTile<T>& rows, const T* scratch) {
  if (term.features.data == nullptr && term.shift == nullptr) return {rows.q, rows.job->shape.padded_width};
  return {scratch + term.table.layout.features, term.table.padded_width};
}

/// A row of the caller's features; what pads is zero.
template <DType dtype, class T>
void copy_feature_row(const attend::QueryTableJob& term, std::int64_t first, T* out) {
  const auto* const in = static_cast<const Stored<dtype>*>(term.features.data) + first;
  std::fill_n(out, term.table.padded_width, T{0});
  for (std::int64_t d = 0; d < term.table.width; ++d) out[d] = static_cast<T>(widen_one<dtype>(in[d * term.features.strides[3]]));
}
template <class T>
void copy_feature_row(const attend::QueryTableJob& term, std::int64_t first, T* out) {
  switch (term.features.dtype) {
    case DType::f32:
      return copy_feature_row<DType::f32>(term, first, out);
    case DType::f64:
      return copy_feature_row<DType::f64>(term, first, out);
    case DType::f16:
      return copy_feature_row<DType::f16>(term, first, out);
    case DType::bf16:
      return copy_feature_row<DType::bf16>(term, first, out);
  }
}

/// The copy: features or q, and the shift.
template <class T>
void copy_features(const attend::QueryTableJob& term, const RowTile<T>& rows, T* scratch) {
  const std::int64_t padded_width = term.table.padded_width;
  const T* const shift = term.shift == nullptr ? nullptr : static_cast<const T*>(term.shift) + rows.head * padded_width;
  const Extents& strides = term.features.strides;
  for (std::int64_t i = 0; i < rows.tile->count; ++i) {
    T* const out = scratch + term.table.layout.features + i * padded_width;
    if (term.features.data == nullptr) {
      std::copy_n(rows.q + i * rows.job->shape.padded_width, padded_width, out);
    } else {
      copy_feature_row(term, rows.batch * strides[0] + (rows.tile->first + i) * strides[1] + rows.head * strides[2], out);
    }
    for (std::int64_t d = 0; shift != nullptr && d < padded_width; ++d) out[d] += shift[d];
  }
}

template <class T>
void term_begin(const attend::QueryTableJob& term, const RowTile<T>& rows, T* scratch) {
  if (term.features.data != nullptr || term.shift != nullptr) copy_features(term, rows, scratch);
  begin_products(buffers_of(term.table, scratch));
}

template <class T>
AddedRows<T> term_added(const attend::QueryTableJob& term, const ScoreTile<T>& tile, T* scratch, T* /*line*/) {
  const RowsOf<const T> features = query_features(term, *tile.rows, scratch);
  return added_products(TableMeeting<T>{&term.table, tile.rows, features, buffers_of(term.table, scratch)}, tile);
}
template <class T>
void term_add(const attend::QueryTableJob& term, const ScoreTile<T>& tile, T* scratch) {
  const RowsOf<const T> features = query_features(term, *tile.rows, scratch);
  add_products(TableMeeting<T>{&term.table, tile.rows, features, buffers_of(term.table, scratch)}, tile);
}

// ---- Backward ----

/// Gradients: by features (q's go to the loop's buffer), table and shift.
template <class T>
TableSums<T> query_sums(const attend::QueryTableJob& term, const RowTile<T>& rows, const BackwardTile<T>& backward, T* scratch) {
  const attend::AttentionJob& job = *rows.job;
  const std::int64_t padded_width = term.table.padded_width;
  SumsTo<T> to{.padded_width = padded_width,
               .rows = term.table.rows.of<T>(rows.batch, rows.head),
               .features = query_features(term, rows, scratch),
               .result = {backward.q_gradient, job.shape.padded_width},
               .table = slot_table<T>(job, term.table.sums, term.table.slot_rows, backward.slot, padded_width),
               .shift = nullptr,
               .column_sums = scratch + term.table.layout.column_sums};
  if (term.features.data != nullptr) to.result = {nullptr, padded_width};
  if (term.feature_sums != nullptr) {
    const std::int64_t part = backward.slot / job.shape.heads % job.backward.parts;
    const std::int64_t row = ((part * job.shape.batch + rows.batch) * job.shape.heads + rows.head) * job.shape.queries + rows.tile->first;
    to.result.data = static_cast<T*>(term.feature_sums) + row * padded_width;
  }
  if (term.shift_sums != nullptr) to.shift = static_cast<T*>(term.shift_sums) + backward.slot * padded_width;
  return {&term.table, rows.tile->count, buffers_of(term.table, scratch), to};
}
template <class T>
bool wants_query_sums(const attend::QueryTableJob& term, const BackwardTile<T>& backward) {
  const bool by_features = term.features.data == nullptr ? backward.q_gradient != nullptr : term.feature_sums != nullptr;
  return by_features || term.table.sums != nullptr || term.shift_sums != nullptr;
}

/// Queries that see no key: whatever their features' memory holds, NaN perhaps, must not meet a sum of 0.
template <class T>
void clear_blind_features(const attend::QueryTableJob& term, const RowTile<T>& rows, T* scratch) {
  const ConstTensorView& lse = rows.job->backward.lse;
  const T* number =
      static_cast<const T*>(lse.data) + rows.batch * lse.strides[0] + rows.tile->first * lse.strides[1] + rows.head * lse.strides[2];
  for (std::int64_t i = 0; i < rows.tile->count; ++i, number += lse.strides[1]) {
    if (*number != -std::numeric_limits<T>::infinity()) continue;
    std::fill_n(scratch + term.table.layout.features + i * term.table.padded_width, term.table.padded_width, T{0});
  }
}

template <class T>
void term_backward_begin(const attend::QueryTableJob& term, const RowTile<T>& rows, const BackwardTile<T>& backward, T* scratch) {
  term_begin(term, rows, scratch);
  if (term.features.data != nullptr) clear_blind_features(term, rows, scratch);
  if (wants_query_sums(term, backward)) begin_sums(buffers_of(term.table, scratch), rows.tile->count);
}
template <class T>
void term_gradient(const attend::QueryTableJob& term, const ScoreTile<T>& ds, const BackwardTile<T>& backward, T* scratch) {
  if (wants_query_sums(term, backward)) take_sums(query_sums(term, *ds.rows, backward, scratch), ds);
}
template <class T>
void term_backward_finish(const attend::QueryTableJob& term, const RowTile<T>& rows, const BackwardTile<T>& backward, T* scratch) {
  if (wants_query_sums(term, backward)) finish_sums(query_sums(term, rows, backward, scratch));
}
