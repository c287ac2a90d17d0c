// SPDX-License-Identifier: Apache-2.0
// Rows of the two offsets of an image that meet queries: products with all rows once per tile of queries, then two additions per score.

/// Products of the tile's queries with the rows of an axis, and of those what each query reads for every key coordinate.
template <class T>
void decomposed_products(const attend::AxisJob& axis, const RowTile<T>& rows, std::int64_t stride, T* products) {
  const std::int64_t width = rows.job->shape.padded_width;
  gemm(Gemm<T>{.m = rows.tile->count,
               .n = axis.padded_rows,
               .k = rows.job->shape.width,
               .a = rows.q,
               .a_row = width,
               .a_k = 1,
               .b = static_cast<const T*>(axis.columns) + (axis.shares_heads ? 0 : rows.head * width * axis.padded_rows),
               .b_row = axis.padded_rows,
               .c = products,
               .c_row = stride,
               .add = false});
}

/// out[k] = in[row of (query, k)], k below count, going on from 0 beyond the keys.
template <class T>
void read_rows(const attend::AxisJob& axis, std::int64_t query, const T* in, T* out, std::int64_t count) {
  const std::int32_t* const row_of = axis.row_of + query * axis.keys;
  const std::int64_t keys = std::min(count, axis.keys);
  for (std::int64_t k = 0; k < keys; ++k) out[k] = in[row_of[k]];
  for (std::int64_t k = keys; k < count; ++k) out[k] = out[k - axis.keys];
}

template <class T>
void term_begin(const attend::DecomposedJob& term, const RowTile<T>& rows, T* scratch) {
  const attend::DecomposedLayout at = attend::layout_of(term, false);
  T* const products = scratch + at.products;
  decomposed_products(term.y, rows, at.product_stride, products);
  for (std::int64_t i = 0; i < rows.tile->count; ++i) {
    const std::int64_t y = rows.positions[i] / term.x.queries;
    read_rows(term.y, y, products + i * at.product_stride, scratch + at.y + i * at.y_stride, term.y.keys);
  }
  decomposed_products(term.x, rows, at.product_stride, products);
  for (std::int64_t i = 0; i < rows.tile->count; ++i) {
    const std::int64_t x = rows.positions[i] % term.x.queries;
    read_rows(term.x, x, products + i * at.product_stride, scratch + at.x + i * at.x_stride, term.x.keys + attend::kKeyTile);
  }
}

/// The grid rows that keys at consecutive positions lie in.
struct GridSpan {
  std::int64_t y;  // of the first key
  std::int64_t x;
  std::int64_t rows;
};
inline GridSpan grid_span(const attend::TokenTile& keys, std::int64_t width) {
  const std::int64_t y = keys.min_position / width;
  const std::int64_t x = keys.min_position % width;
  return {y, x, (x + keys.count - 1) / width + 1};
}

/// out (grid rows, kKeyTile): 1 where the tile's column lies in that grid row, else 0; or its transpose, (kKeyTile, padded(grid rows)).
template <class T>
void fill_indicator(const attend::TokenTile& keys, const GridSpan& span, std::int64_t width, bool transposed, T* out) {
  const std::int64_t row_step = transposed ? 1 : attend::kKeyTile;
  const std::int64_t column_step = transposed ? padded(span.rows) : 1;
  std::fill_n(out, transposed ? attend::kKeyTile * column_step : span.rows * row_step, T{0});
  std::int64_t row = 0;
  std::int64_t x = span.x;
  for (std::int64_t column = 0; column < keys.count; ++column, ++x) {
    if (x == width) {
      x = 0;
      ++row;
    }
    out[row * row_step + column * column_step] = 1;
  }
}

template <class T>
void term_add(const attend::DecomposedJob& term, const ScoreTile<T>& tile, T* scratch) {
  const attend::DecomposedLayout at = attend::layout_of(term, false);
  const std::int64_t count = tile.rows->tile->count;
  const std::int64_t width = term.x.keys;
  if (!tile.keys->consecutive) {
    for (std::int64_t j = 0; j < tile.keys->count; ++j) {
      const T* const y = scratch + at.y + tile.key_positions[j] / width;
      const T* const x = scratch + at.x + tile.key_positions[j] % width;
      for (std::int64_t i = 0; i < count; ++i) tile.scores[i * attend::kKeyTile + j] += y[i * at.y_stride] + x[i * at.x_stride];
    }
    return;
  }
  const GridSpan span = grid_span(*tile.keys, width);
  T* const indicator = scratch + at.indicator;
  fill_indicator(*tile.keys, span, width, false, indicator);
  gemm(Gemm<T>{.m = count,
               .n = attend::kKeyTile,
               .k = span.rows,
               .a = scratch + at.y + span.y,
               .a_row = at.y_stride,
               .a_k = 1,
               .b = indicator,
               .b_row = attend::kKeyTile,
               .c = tile.scores,
               .c_row = attend::kKeyTile,
               .add = true});
  for (std::int64_t i = 0; i < count; ++i) add_biases(scratch + at.x + i * at.x_stride + span.x, tile.scores + i * attend::kKeyTile);
}

template <class T>
void term_backward_begin(const attend::DecomposedJob& term, const RowTile<T>& rows, const BackwardTile<T>& /*backward*/, T* scratch) {
  const attend::DecomposedLayout at = attend::layout_of(term, true);
  term_begin(term, rows, scratch);
  std::fill_n(scratch + at.y_gradient, attend::kQueryTile * at.y_stride, T{0});
  std::fill_n(scratch + at.x_gradient, attend::kQueryTile * at.x_stride, T{0});
}

template <class T>
void term_gradient(const attend::DecomposedJob& term, const ScoreTile<T>& ds, const BackwardTile<T>& /*backward*/, T* scratch) {
  const attend::DecomposedLayout at = attend::layout_of(term, true);
  const std::int64_t count = ds.rows->tile->count;
  const std::int64_t width = term.x.keys;
  if (!ds.keys->consecutive) {
    for (std::int64_t j = 0; j < ds.keys->count; ++j) {
      T* const y = scratch + at.y_gradient + ds.key_positions[j] / width;
      T* const x = scratch + at.x_gradient + ds.key_positions[j] % width;
      for (std::int64_t i = 0; i < count; ++i) {
        y[i * at.y_stride] += ds.scores[i * attend::kKeyTile + j];
        x[i * at.x_stride] += ds.scores[i * attend::kKeyTile + j];
      }
    }
    return;
  }
  const GridSpan span = grid_span(*ds.keys, width);
  T* const indicator = scratch + at.indicator;
  fill_indicator(*ds.keys, span, width, true, indicator);
  gemm(Gemm<T>{.m = count,
               .n = attend::padded(span.rows),
               .k = attend::kKeyTile,
               .a = ds.scores,
               .a_row = attend::kKeyTile,
               .a_k = 1,
               .b = indicator,
               .b_row = padded(span.rows),
               .c = scratch + at.y_gradient + span.y,
               .c_row = at.y_stride,
               .add = true});
  for (std::int64_t i = 0; i < count; ++i)
    add_run(ds.scores + i * attend::kKeyTile, scratch + at.x_gradient + i * at.x_stride + span.x, attend::kKeyTile);
}

/// From the gradients by what queries read (they lie in `read`) to those by rows of the axis, and by queries.
template <class T>
struct AxisGradient {
  const T* read;
  std::int64_t read_stride;
  std::int64_t read_count;
  T* products;  // by products with rows: (kQueryTile, stride)
  std::int64_t stride;
  std::int64_t divisor;  // of a position, the coordinate is position / divisor % the queries' extent
};
template <class T>
void finish_axis(const attend::AxisJob& axis, const RowTile<T>& rows, const BackwardTile<T>& backward, const AxisGradient<T>& g) {
  const std::int64_t width = rows.job->shape.padded_width;
  const std::int64_t count = rows.tile->count;
  std::fill_n(g.products, count * g.stride, T{0});
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int32_t* const row_of = axis.row_of + rows.positions[i] / g.divisor % axis.queries * axis.keys;
    for (std::int64_t k = 0; k < g.read_count; ++k) g.products[i * g.stride + row_of[k % axis.keys]] += g.read[i * g.read_stride + k];
  }
  if (backward.q_gradient != nullptr) {
    gemm(Gemm<T>{.m = count,
                 .n = width,
                 .k = axis.rows,
                 .a = g.products,
                 .a_row = g.stride,
                 .a_k = 1,
                 .b = static_cast<const T*>(axis.packed) + (axis.shares_heads ? 0 : rows.head * axis.rows * width),
                 .b_row = width,
                 .c = backward.q_gradient,
                 .c_row = width,
                 .add = true});
  }
  if (axis.sums == nullptr) return;
  gemm(Gemm<T>{.m = axis.rows,
               .n = width,
               .k = count,
               .a = g.products,
               .a_row = 1,
               .a_k = g.stride,
               .b = rows.q,
               .b_row = width,
               .c = static_cast<T*>(axis.sums) + backward.slot * axis.rows * width,
               .c_row = width,
               .add = true});
}

template <class T>
void term_backward_finish(const attend::DecomposedJob& term, const RowTile<T>& rows, const BackwardTile<T>& backward, T* scratch) {
  const attend::DecomposedLayout at = attend::layout_of(term, true);
  AxisGradient<T> g{.read = scratch + at.y_gradient,
                    .read_stride = at.y_stride,
                    .read_count = term.y.keys,
                    .products = scratch + at.products,
                    .stride = at.product_stride,
                    .divisor = term.x.queries};
  finish_axis(term.y, rows, backward, g);
  g.read = scratch + at.x_gradient;
  g.read_stride = at.x_stride;
  g.read_count = term.x.keys + attend::kKeyTile;
  g.divisor = 1;
  finish_axis(term.x, rows, backward, g);
}
