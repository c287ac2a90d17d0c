// SPDX-License-Identifier: Apache-2.0
// How q meets k in a tile of scores: a product, or several of which each score takes one. Included once in each target's namespace.

/// Rows of one head of a tensor.
struct RowsAt {
  std::int64_t batch;
  std::int64_t token;
  std::int64_t head;
  std::int64_t count;
};
inline ConstStoredRows const_stored_rows(const ConstTensorView& x, const RowsAt& at) {
  const std::int64_t first = at.batch * x.strides[0] + at.token * x.strides[1] + at.head * x.strides[2];
  return {static_cast<const std::byte*>(x.data) + first * bytes_of(x.dtype), x.dtype, x.strides[1], at.count, x.shape[3]};
}
inline StoredRows stored_rows(const TensorView& x, const RowsAt& at) {
  const std::int64_t first = at.batch * x.strides[0] + at.token * x.strides[1] + at.head * x.strides[2];
  return {static_cast<std::byte*>(x.data) + first * bytes_of(x.dtype), x.dtype, x.strides[1], at.count, x.shape[3]};
}
/// The queries of a tile times a factor: (count, padded_width).
template <class T>
void pack_queries(const ConstTensorView& q, const RowTile<T>& rows, T factor, T* out) {
  const attend::TokenTile& tile = *rows.tile;
  pack_rows<T>(const_stored_rows(q, {rows.batch, tile.first, rows.head, tile.count}), {out, rows.job->shape.padded_width, tile.count},
               factor);
}

/// Queries of a tile as they meet keys: scaled, shifted; one set per content, (count, padded_width).
template <class T>
struct ContentRows {
  T* q[attend::kMaxContents];
  T* decayed;               // xPos: those of the tile at hand
  const T* next = nullptr;  // what is read after the scores of the tile at hand (Gemm)
  std::int64_t next_count = 0;
};

template <class T>
void pack_content_rows(const RowTile<T>& rows, const ContentRows<T>& out) {
  const attend::AttentionJob& job = *rows.job;
  const std::int64_t width = job.shape.padded_width;
  const auto scale = static_cast<T>(job.scale);
  for (int c = 0; c < job.content_count; ++c) {
    pack_queries(job.contents[c].q, rows, scale, out.q[c]);
    if (job.content_shift == nullptr) continue;
    const T* const shift = static_cast<const T*>(job.content_shift) + rows.head * width;
    for (std::int64_t i = 0; i < rows.tile->count; ++i) {
      T* const row = out.q[c] + i * width;
      for (std::int64_t d = 0; d < width; d += lanes<T>) store(mul_add(set(scale), load(shift + d), load(row + d)), row + d);
    }
  }
}

/// xPos: the factor on each channel of q for two tiles, exp(log_zeta (query anchor - key anchor)).
template <class T>
void decay_factors(const attend::AttentionJob& job, std::int64_t anchor_distance, T* out) {
  const Reg<double> distance = set(static_cast<double>(anchor_distance));
  for (std::int64_t d = 0; d < job.shape.padded_width; d += lanes<double>) {
    HWY_ALIGN double factors[lanes<double>];
    store(exponential<double>(mul(load(job.decay.log_zeta + d), distance)), factors);
    for (int i = 0; i < lanes<double>; ++i) out[d + i] = static_cast<T>(factors[i]);
  }
}

/// Each row of `in` times the factors, (count, padded_width).
template <class T>
void multiply_channels(const RowTile<T>& rows, const T* in, const T* factors, T* out) {
  const std::int64_t width = rows.job->shape.padded_width;
  for (std::int64_t i = 0; i < rows.tile->count; ++i) {
    for (std::int64_t d = 0; d < width; d += lanes<T>) store(mul(load(in + i * width + d), load(factors + d)), out + i * width + d);
  }
}

/// Which content a score takes.
inline int content_at(const attend::AttentionJob& job, std::int64_t query_position, std::int64_t key_position) {
  if (job.rule == attend::ContentRule::one) return 0;
  if (job.rule == attend::ContentRule::window) return query_position - key_position < job.rule_size ? 0 : 1;
  const std::int64_t chunks = query_position / job.rule_size - key_position / job.rule_size;
  return static_cast<int>(std::clamp<std::int64_t>(chunks, 0, 2));
}
/// The contents that a tile takes: first to last. Positions are not negative where there is a choice.
struct ContentSpan {
  int first;
  int last;
};
inline ContentSpan contents_of(const attend::AttentionJob& job, const attend::TokenTile& queries, const attend::TokenTile& keys) {
  return {content_at(job, queries.min_position, keys.max_position), content_at(job, queries.max_position, keys.min_position)};
}

template <class T>
void content_product(const ScoreTile<T>& tile, const T* q, const T* keys_transposed, const ContentRows<T>& content, T* scores) {
  const std::int64_t width = tile.rows->job->shape.padded_width;
  Slab slab = {};
  for (std::int64_t row = 0; row < tile.rows->tile->count; row += slab.rows) {
    slab = slab_at(tile, row);
    gemm(Gemm<T>{.m = slab.rows,
                 .n = slab.columns,
                 .k = tile.rows->job->shape.width,
                 .a = q + row * width,
                 .a_row = width,
                 .a_k = 1,
                 .b = keys_transposed + slab.first,
                 .b_row = attend::kKeyTile,
                 .c = scores + row * attend::kKeyTile + slab.first,
                 .c_row = attend::kKeyTile,
                 .add = false,
                 .factor = nullptr,
                 .next = content.next,
                 .next_count = tile.partial ? 0 : content.next_count});
  }
}

/// Fills the tile's scores. keys_transposed: (padded_width, kKeyTile) of the key tile, one a content; other: another tile of scores,
/// where there is a decay at least padded_width of T.
template <class T>
void content_scores(const ScoreTile<T>& tile, const ContentRows<T>& content, const T* const* keys_transposed, T* other) {
  const RowTile<T>& rows = *tile.rows;
  const attend::AttentionJob& job = *rows.job;
  if (job.decay.present) {
    T* const factors = other;  // as wide as q, too
    decay_factors(job, tile.distance, factors);
    multiply_channels(rows, content.q[0], factors, content.decayed);
    return content_product(tile, content.decayed, keys_transposed[0], content, tile.scores);
  }
  const ContentSpan span = contents_of(job, *rows.tile, *tile.keys);
  content_product(tile, content.q[span.first], keys_transposed[span.first], content, tile.scores);
  for (int c = span.first + 1; c <= span.last; ++c) {
    content_product(tile, content.q[c], keys_transposed[c], content, other);
    for (std::int64_t i = 0; i < rows.tile->count; ++i) {
      for (std::int64_t j = 0; j < tile.keys->count; ++j) {
        const std::int64_t at = i * attend::kKeyTile + j;
        if (content_at(job, rows.positions[i], tile.key_positions[j]) == c) tile.scores[at] = other[at];
      }
    }
  }
}
