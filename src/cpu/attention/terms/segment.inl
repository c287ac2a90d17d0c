// SPDX-License-Identifier: Apache-2.0
// Segments: two numbers per row, of which a score takes the one that its key's segment says.

template <class T>
struct SegmentRows {
  const T* table;    // (2, padded_width)
  const T* queries;  // segments of the rows
  T* products;       // (2, kQueryTile): same, other
  T* gradients;      // the same, backward
};
template <class T>
SegmentRows<T> segment_rows(const attend::SegmentJob& term, const RowTile<T>& rows, T* scratch) {
  return {.table = static_cast<const T*>(term.table) + rows.head * term.table_head_stride,
          .queries = static_cast<const T*>(term.query_segments) + rows.batch * term.query_segment_stride + rows.tile->first,
          .products = scratch,
          .gradients = scratch + 2 * attend::kQueryTile};
}
template <class T>
const T* segment_keys(const attend::SegmentJob& term, const ScoreTile<T>& tile) {
  return static_cast<const T*>(term.key_segments) + tile.rows->batch * term.key_segment_stride + tile.keys->first;
}

/// Segments are whole numbers.
template <class T>
HWY_INLINE auto same_segment(const T* keys, Reg<T> query) {
  return less(absolute(sub(load(keys), query)), set(T(0.5)));
}

template <class T>
void term_begin(const attend::SegmentJob& term, const RowTile<T>& rows, T* scratch) {
  const SegmentRows<T> s = segment_rows(term, rows, scratch);
  const std::int64_t width = rows.job->shape.padded_width;
  const T* const constants = static_cast<const T*>(term.constants) + 2 * rows.head;
  for (std::int64_t i = 0; i < rows.tile->count; ++i) {
    Reg<T> same = zero<T>();
    Reg<T> other = zero<T>();
    for (std::int64_t c = 0; c < width; c += lanes<T>) {
      const Reg<T> q = load(rows.q + i * width + c);
      same = mul_add(q, load(s.table + c), same);
      other = mul_add(q, load(s.table + width + c), other);
    }
    s.products[i] = reduce_sum(same) + constants[0];
    s.products[attend::kQueryTile + i] = reduce_sum(other) + constants[1];
  }
}

template <class T>
void term_add(const attend::SegmentJob& term, const ScoreTile<T>& tile, T* scratch) {
  const SegmentRows<T> s = segment_rows(term, *tile.rows, scratch);
  const T* const keys = segment_keys(term, tile);
  for (std::int64_t i = 0; i < tile.rows->tile->count; ++i) {
    T* const row = tile.scores + i * attend::kKeyTile;
    const Reg<T> query = set(s.queries[i]);
    const Reg<T> same = set(s.products[i]);
    const Reg<T> other = set(s.products[attend::kQueryTile + i]);
    for (std::int64_t j = 0; j < attend::kKeyTile; j += lanes<T>) {
      store(add(load(row + j), if_then_else(same_segment(keys + j, query), same, other)), row + j);
    }
  }
}

template <class T>
void term_backward_begin(const attend::SegmentJob& term, const RowTile<T>& rows, const BackwardTile<T>& /*backward*/, T* scratch) {
  term_begin(term, rows, scratch);
  std::fill_n(segment_rows(term, rows, scratch).gradients, 2 * attend::kQueryTile, T{0});
}

template <class T>
void term_gradient(const attend::SegmentJob& term, const ScoreTile<T>& ds, const BackwardTile<T>& /*backward*/, T* scratch) {
  const SegmentRows<T> s = segment_rows(term, *ds.rows, scratch);
  const T* const keys = segment_keys(term, ds);
  for (std::int64_t i = 0; i < ds.rows->tile->count; ++i) {
    const T* const row = ds.scores + i * attend::kKeyTile;
    const Reg<T> query = set(s.queries[i]);
    Reg<T> same = zero<T>();
    Reg<T> other = zero<T>();
    for (std::int64_t j = 0; j < attend::kKeyTile; j += lanes<T>) {
      const Reg<T> x = load(row + j);
      const auto is_same = same_segment(keys + j, query);
      same = add(same, if_then_else(is_same, x, zero<T>()));
      other = add(other, zero_if(is_same, x));
    }
    s.gradients[i] += reduce_sum(same);
    s.gradients[attend::kQueryTile + i] += reduce_sum(other);
  }
}

template <class T>
void term_backward_finish(const attend::SegmentJob& term, const RowTile<T>& rows, const BackwardTile<T>& backward, T* scratch) {
  const SegmentRows<T> s = segment_rows(term, rows, scratch);
  const std::int64_t width = rows.job->shape.padded_width;
  const std::int64_t count = rows.tile->count;
  if (backward.q_gradient != nullptr) {
    gemm(Gemm<T>{.m = count,
                 .n = width,
                 .k = 2,
                 .a = s.gradients,
                 .a_row = 1,
                 .a_k = attend::kQueryTile,
                 .b = s.table,
                 .b_row = width,
                 .c = backward.q_gradient,
                 .c_row = width,
                 .add = true});
  }
  if (term.sums == nullptr) return;
  T* const sums = static_cast<T*>(term.sums) + backward.slot * term.sum_size;
  gemm(Gemm<T>{.m = 2,
               .n = width,
               .k = count,
               .a = s.gradients,
               .a_row = attend::kQueryTile,
               .a_k = 1,
               .b = rows.q,
               .b_row = width,
               .c = sums,
               .c_row = width,
               .add = true});
  for (std::int64_t i = 0; i < 2 * attend::kQueryTile; ++i) sums[2 * width + i / attend::kQueryTile] += s.gradients[i];
}
