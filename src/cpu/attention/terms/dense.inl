// SPDX-License-Identifier: Apache-2.0
// A bias given in full: rows of the caller's tensor are added to scores, rows of gradients to the caller's, or to sums where it is shared.

/// row[j] += in[j * stride], j below count.
template <class T, DType dtype>
HWY_INLINE void add_dense_row(const Stored<dtype>* in, std::int64_t stride, T* row, std::int64_t count) {
  std::int64_t j = 0;
  if constexpr (std::is_same_v<T, Computed<dtype>>) {
    if (stride == 1) {
      for (; j + lanes<T> <= count; j += lanes<T>) store(add(load(row + j), load_widened<dtype>(in + j)), row + j);
    }
  }
  for (; j < count; ++j) row[j] += static_cast<T>(widen_one<dtype>(in[j * stride]));
}

template <DType dtype, class T>
HWY_INLINE void add_dense(const attend::DenseJob& term, const ScoreTile<T>& tile) {
  const RowTile<T>& rows = *tile.rows;
  const Extents& strides = term.bias.strides;
  const auto* in = static_cast<const Stored<dtype>*>(term.bias.data) + rows.batch * strides[0] + rows.tile->first * strides[1] +
                   rows.head * strides[2] + tile.keys->first * strides[3];
  T* scores = tile.scores;
  for (std::int64_t i = 0; i < rows.tile->count; ++i, in += strides[1], scores += attend::kKeyTile) {
    add_dense_row<T, dtype>(in, strides[3], scores, tile.keys->count);
  }
}

template <class T>
void term_add(const attend::DenseJob& term, const ScoreTile<T>& tile, T* /*scratch*/) {
  switch (term.bias.dtype) {
    case DType::f32:
      return add_dense<DType::f32>(term, tile);
    case DType::f64:
      return add_dense<DType::f64>(term, tile);
    case DType::f16:
      return add_dense<DType::f16>(term, tile);
    case DType::bf16:
      return add_dense<DType::bf16>(term, tile);
  }
}

/// out[j * stride] += row[j]; with stride 0 their sum.
template <class Out, class T>
HWY_INLINE void add_dense_gradient(const T* row, Out* out, std::int64_t stride, std::int64_t count) {
  if (stride == 0) {
    Reg<T> sum = zero<T>();  // what pads the row is 0
    for (std::int64_t j = 0; j < attend::kKeyTile; j += lanes<T>) sum = add(sum, load(row + j));
    *out += static_cast<Out>(reduce_sum(sum));
    return;
  }
  std::int64_t j = 0;
  if constexpr (std::is_same_v<T, Out>) {
    if (stride == 1) {
      for (; j + lanes<T> <= count; j += lanes<T>) store(add(load(out + j), load(row + j)), out + j);
    }
  }
  for (; j < count; ++j) out[j * stride] += static_cast<Out>(row[j]);
}

/// Rows of `out`, from the tile's first score on.
template <class Out, class T>
HWY_INLINE void add_dense_gradients(const ScoreTile<T>& ds, Out* out, std::int64_t query_stride, std::int64_t key_stride) {
  out += ds.rows->tile->first * query_stride + ds.keys->first * key_stride;
  const T* row = ds.scores;
  for (std::int64_t i = 0; i < ds.rows->tile->count; ++i, row += attend::kKeyTile, out += query_stride) {
    add_dense_gradient(row, out, key_stride, ds.keys->count);
  }
}

template <class T>
void term_gradient(const attend::DenseJob& term, const ScoreTile<T>& ds, const BackwardTile<T>& backward, T* /*scratch*/) {
  const RowTile<T>& rows = *ds.rows;
  if (term.sums != nullptr) {
    const std::int64_t part = backward.slot / rows.job->shape.heads % rows.job->backward.parts;
    const std::int64_t head = term.sums_key_heads ? rows.head / rows.job->shape.group() : rows.head;
    const auto& strides = term.sum_strides;
    T* const sums = static_cast<T*>(term.sums) + rows.tile->sequence * strides[0] + part * strides[1] + head * strides[2];
    return add_dense_gradients(ds, sums, strides[3], strides[4]);
  }
  if (term.gradient.data == nullptr) return;
  const Extents& strides = term.gradient.strides;
  const std::int64_t first = rows.batch * strides[0] + rows.head * strides[2];
  if (term.gradient.dtype == DType::f64) {
    add_dense_gradients(ds, static_cast<double*>(term.gradient.data) + first, strides[1], strides[3]);
  } else {
    add_dense_gradients(ds, static_cast<float*>(term.gradient.data) + first, strides[1], strides[3]);
  }
}
