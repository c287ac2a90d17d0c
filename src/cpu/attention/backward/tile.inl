// SPDX-License-Identifier: Apache-2.0
// The backward of one tile of scores: probabilities again, their gradient, and what it reaches. Included once in each target's namespace.

/// Panels of one key tile.
template <class T>
struct BackwardPanels {
  const T* keys_transposed[attend::kMaxContents];
  const T* keys[attend::kMaxContents];
  const T* values_transposed;
  const T* next;  // keys_transposed of the next tile; null: there is none
};
template <class T>
BackwardPanels<T> backward_panels(const attend::AttentionJob& job, std::int64_t key_head, std::int64_t key_tile) {
  const std::int64_t panel = key_head * static_cast<std::int64_t>(job.key_tiles.size()) + key_tile;
  const std::int64_t size = panel * job.shape.padded_width * attend::kKeyTile;
  BackwardPanels<T> p = {};
  for (int c = 0; c < job.content_count; ++c) {
    p.keys_transposed[c] = static_cast<const T*>(job.panels.keys_transposed[c]) + size;
    p.keys[c] = static_cast<const T*>(job.panels.keys[c]) + size;
  }
  const bool is_last = key_tile + 1 == static_cast<std::int64_t>(job.key_tiles.size());
  p.next = is_last ? nullptr : p.keys_transposed[0] + job.shape.padded_width * attend::kKeyTile;
  p.values_transposed = static_cast<const T*>(job.panels.values_transposed) + panel * job.shape.padded_value_width * attend::kKeyTile;
  return p;
}

/// What the next product reads, brought nearer while one is at work: panels and sums of a long sequence lie in a far cache.
template <class T>
struct Next {
  const T* data;
  std::int64_t count;
};
template <class T>
Next<T> next_rows(const attend::AttentionJob& job, const T* data, std::int64_t width) {
  constexpr std::int64_t kNear = std::int64_t{1} << 20;  // bytes: the near caches hold as much
  const std::int64_t all = job.shape.keys * (3 * job.shape.padded_width + 2 * job.shape.padded_value_width);
  const bool is_far = data != nullptr && all * static_cast<std::int64_t>(sizeof(T)) > kNear;
  return {data, is_far ? width * attend::kKeyTile : 0};
}

/// cap tanh(s / cap), and its slope; -infinity stays, and has none.
template <class T>
void cap_with_slope(const RowTile<T>& rows, T* scores, T* slope) {
  const auto cap = static_cast<T>(rows.job->softcap);
  const Reg<T> inverse = set(T{1} / cap);
  for (std::int64_t at = 0; at < rows.tile->count * attend::kKeyTile; at += lanes<T>) {
    const Reg<T> s = load(scores + at);
    const Reg<T> t = hyperbolic_tangent<T>(mul(s, inverse));
    store(capped_unless_hidden<T>(s, mul(set(cap), t)), scores + at);
    store(neg_mul_add(t, t, set(T{1})), slope + at);
  }
}

/// scores <- p = e^(scores - lse), dp <- ds = p (dp - row sum). A probability of 0 has a gradient of 0, whatever dp is.
template <class T>
HWY_NOINLINE void score_gradients(const BackwardRows<T>& at) {
  const BackwardBuffers<T>& b = at.buffers;
  for (std::int64_t i = 0; i < at.rows.tile->count; ++i) {
    const Reg<T> lse = base_of<T>(set(b.lse[i]));
    const Reg<T> row_sum = set(b.row_sum[i]);
    T* const p = b.scores + i * attend::kKeyTile;
    T* const dp = b.dp + i * attend::kKeyTile;
    HWY_UNROLL(8)
    for (int j = 0; j < attend::kKeyTile; j += lanes<T>) {
      const Reg<T> probability = exponential<T>(sub(load(p + j), lse));
      const Reg<T> ds = mul(probability, sub(load(dp + j), row_sum));
      store(probability, p + j);
      store(zero_if(less(probability, set(std::numeric_limits<T>::min())), ds), dp + j);
    }
  }
}

/// With dropout, f the factors of weights: ds = p (f dp - row sum), scores <- f p, which values meet.
template <class T>
HWY_NOINLINE void dropped_score_gradients(const BackwardRows<T>& at, const ScoreTile<T>& tile) {
  const BackwardBuffers<T>& b = at.buffers;
  DropoutBlocks blocks;
  find_blocks(tile.key_positions, tile.keys->count, blocks);
  DropoutRow<T> row;
  for (std::int64_t i = 0; i < at.rows.tile->count; ++i) {
    draw_row(tile, blocks, i, row);
    const Reg<T> lse = base_of<T>(set(b.lse[i]));
    const Reg<T> row_sum = set(b.row_sum[i]);
    T* const p = b.scores + i * attend::kKeyTile;
    T* const dp = b.dp + i * attend::kKeyTile;
    for (int j = 0; j < attend::kKeyTile; j += lanes<T>) {
      const Reg<T> factor = load(row.factor + j);
      const Reg<T> probability = exponential<T>(sub(load(p + j), lse));
      const Reg<T> ds = mul(probability, sub(mul(load(dp + j), factor), row_sum));
      store(mul(probability, factor), p + j);
      store(zero_if(less(probability, set(std::numeric_limits<T>::min())), ds), dp + j);
    }
  }
}

/// Scores as the forward made them, -infinity where not seen.
template <class T>
void scores_again(const BackwardRows<T>& at, const ScoreTile<T>& tile, const BackwardPanels<T>& panels, TileMask mask) {
  const attend::AttentionJob& job = *at.rows.job;
  ContentRows<T> content = content_rows_of(at.buffers);
  const Next<T> next = next_rows(job, panels.values_transposed, job.shape.padded_value_width);
  content.next = next.data;
  content.next_count = next.count;
  content_scores(tile, content, panels.keys_transposed, at.buffers.dp);
  each_term(job, at.base, [&](const auto& term, T* scratch) { term_add(term, tile, scratch); });
  if (job.softcap > 0) cap_with_slope(at.rows, tile.scores, at.buffers.slope);
  if (mask == TileMask::part || tile.keys->count < attend::kKeyTile) mask_tile(tile, -std::numeric_limits<T>::infinity());
}

template <class T>
T* value_gradient_of(const BackwardRows<T>& at, const attend::TokenTile& keys) {
  const attend::AttentionJob& job = *at.rows.job;
  return rows_at<T>(job.backward.v, key_row_of(job, keys, at.task->key_head), job.shape.padded_value_width);
}
template <class T>
T* key_gradient_of(const BackwardRows<T>& at, const attend::TokenTile& keys, int content) {
  const attend::AttentionJob& job = *at.rows.job;
  return rows_at<T>(job.backward.k[content], key_row_of(job, keys, at.task->key_head), job.shape.padded_width);
}

/// dp = do v^T, and what terms on the side of values add.
template <class T>
void probability_gradients(const BackwardRows<T>& at, const ScoreTile<T>& dp, const BackwardPanels<T>& panels) {
  const attend::AttentionJob& job = *at.rows.job;
  const std::int64_t width = job.shape.padded_value_width;
  const Next<T> next = next_rows<T>(job, value_gradient_of(at, *dp.keys), width);
  Slab slab = {};
  for (std::int64_t row = 0; row < at.rows.tile->count; row += slab.rows) {
    slab = slab_at(dp, row);
    gemm(Gemm<T>{.m = slab.rows,
                 .n = slab.columns,
                 .k = job.shape.value_width,
                 .a = at.buffers.out_gradient + row * width,
                 .a_row = width,
                 .a_k = 1,
                 .b = panels.values_transposed + slab.first,
                 .b_row = attend::kKeyTile,
                 .c = dp.scores + row * attend::kKeyTile + slab.first,
                 .c_row = attend::kKeyTile,
                 .add = false,
                 .factor = nullptr,
                 .next = next.data,
                 .next_count = dp.partial ? 0 : next.count});
  }
  const BackwardTile<T> tile = backward_tile_of<T>(at, nullptr);
  each_term(job, at.base, [&](const auto& term, T* scratch) { term_backward_values(term, dp, tile, scratch); });
}

/// Rows of a partial tile whose slabs reach into the sixteen columns from this one on: all that see one of those keys are among them.
template <class T>
Columns rows_seeing(const ScoreTile<T>& tile, std::int64_t column) {
  Columns seeing = {tile.rows->tile->count, 0};
  Slab slab = {};
  for (std::int64_t row = 0; row < tile.rows->tile->count; row += slab.rows) {
    slab = slab_at(tile, row);
    if (slab.first > column || slab.first + slab.columns <= column) continue;
    seeing = {std::min(seeing.first, row), row + slab.rows};
  }
  return seeing;
}

/// out (keys, width) += weights^T rows: what queries give to keys.
template <class T>
struct KeyProduct {
  const T* rows;
  std::int64_t width;
  T* out;
  Next<T> next;
};
template <class T>
void add_to_keys(const ScoreTile<T>& weights, const KeyProduct<T>& product) {
  const std::int64_t width = product.width;
  const std::int64_t count = weights.keys->count;
  const std::int64_t step = weights.partial ? 16 : count;
  for (std::int64_t key = 0; key < count; key += step) {
    const Columns rows = weights.partial ? rows_seeing(weights, key) : Columns{0, weights.rows->tile->count};
    if (rows.first >= rows.end) continue;
    gemm(Gemm<T>{.m = std::min(step, count - key),
                 .n = width,
                 .k = rows.end - rows.first,
                 .a = weights.scores + rows.first * attend::kKeyTile + key,
                 .a_row = 1,
                 .a_k = attend::kKeyTile,
                 .b = product.rows + rows.first * width,
                 .b_row = width,
                 .c = product.out + key * width,
                 .c_row = width,
                 .add = true,
                 .factor = nullptr,
                 .next = product.next.data,
                 .next_count = weights.partial ? 0 : product.next.count});
  }
}
/// out (queries, width) += ds k.
template <class T>
void add_to_queries(const ScoreTile<T>& ds, const T* keys, const Next<T>& next, T* out) {
  const std::int64_t width = ds.rows->job->shape.padded_width;
  Slab slab = {};
  for (std::int64_t row = 0; row < ds.rows->tile->count; row += slab.rows) {
    slab = slab_at(ds, row);
    const std::int64_t columns = std::min(slab.columns, ds.keys->count - slab.first);
    if (columns <= 0) continue;
    gemm(Gemm<T>{.m = slab.rows,
                 .n = width,
                 .k = columns,
                 .a = ds.scores + row * attend::kKeyTile + slab.first,
                 .a_row = attend::kKeyTile,
                 .a_k = 1,
                 .b = keys + slab.first * width,
                 .b_row = width,
                 .c = out + row * width,
                 .c_row = width,
                 .add = true,
                 .factor = nullptr,
                 .next = next.data,
                 .next_count = ds.partial ? 0 : next.count});
  }
}

/// Queries and keys of a content as they met, and what comes after.
template <class T>
struct MetRows {
  const T* q;
  const T* keys;
  const T* next;
};
/// The gradient of one content.
template <class T>
void content_gradient(const BackwardRows<T>& at, const ScoreTile<T>& ds, int content, const MetRows<T>& met) {
  const attend::AttentionJob& job = *at.rows.job;
  const std::int64_t width = job.shape.padded_width;
  T* const out = key_gradient_of(at, *ds.keys, content);
  if (job.backward.wants_q || job.backward.wants_shift) {
    add_to_queries(ds, met.keys, next_rows<T>(job, out, width), at.buffers.content_gradient[content]);
  }
  if (job.backward.wants_k)
    add_to_keys(ds, KeyProduct<T>{.rows = met.q, .width = width, .out = out, .next = next_rows<T>(job, met.next, width)});
}

/// Those scores that took this content; 0 elsewhere.
template <class T>
void share_of_content(const ScoreTile<T>& ds, int content, T* out) {
  const RowTile<T>& rows = *ds.rows;
  fill(out, rows.tile->count * attend::kKeyTile, T{0});
  for (std::int64_t i = 0; i < rows.tile->count; ++i) {
    for (std::int64_t j = 0; j < ds.keys->count; ++j) {
      const std::int64_t at = i * attend::kKeyTile + j;
      if (content_at(*rows.job, rows.positions[i], ds.key_positions[j]) == content) out[at] = ds.scores[at];
    }
  }
}

/// Every content's gradient. The probabilities have done their work by then: their tile is free.
template <class T>
void content_gradients(const BackwardRows<T>& at, const ScoreTile<T>& ds, const BackwardPanels<T>& panels) {
  const attend::AttentionJob& job = *at.rows.job;
  const BackwardBuffers<T>& b = at.buffers;
  if (job.decay.present) {  // b.spare still holds the queries as they met
    const std::int64_t width = job.shape.padded_width;
    decay_factors(job, ds.distance, b.scores);
    for (std::int64_t d = 0; d < ds.keys->count * width; d += lanes<T>) {
      store(mul(load(panels.keys[0] + d), load(b.scores + d % width)), b.key_tile + d);
    }
    return content_gradient<T>(at, ds, 0, {b.spare, b.key_tile, panels.next});
  }
  const ContentSpan span = contents_of(job, *at.rows.tile, *ds.keys);
  if (span.first == span.last)
    return content_gradient<T>(at, ds, span.first, {b.content_q[span.first], panels.keys[span.first], panels.next});
  ScoreTile<T> share = ds;
  share.scores = b.scores;
  for (int c = span.first; c <= span.last; ++c) {
    share_of_content(ds, c, share.scores);
    content_gradient<T>(at, share, c, {b.content_q[c], panels.keys[c], nullptr});
  }
}

/// Terms get ds. Those that reach keys get a tile of kKeyTile rows, also where the last tile has fewer.
template <class T>
void term_gradients(const BackwardRows<T>& at, const ScoreTile<T>& ds) {
  const attend::AttentionJob& job = *at.rows.job;
  const std::int64_t width = job.shape.padded_width;
  T* const keys = rows_at<T>(job.backward.k_raw, key_row_of(job, *ds.keys, at.task->key_head), width);
  const bool is_short = keys != nullptr && ds.keys->count < attend::kKeyTile;
  T* const k_gradient = is_short ? at.buffers.key_tile : keys;
  if (is_short) fill(k_gradient, attend::kKeyTile * width, T{0});
  const BackwardTile<T> tile = backward_tile_of<T>(at, k_gradient);
  each_term(job, at.base, [&](const auto& term, T* scratch) { term_gradient(term, ds, tile, scratch); });
  for (std::int64_t d = 0; is_short && d < ds.keys->count * width; d += lanes<T>)
    store(add(load(keys + d), load(k_gradient + d)), keys + d);
}

template <class T>
void backward_tile(const BackwardRows<T>& at, const attend::TokenTile& keys, std::int64_t key_tile, TileMask mask) {
  const attend::AttentionJob& job = *at.rows.job;
  const attend::BackwardJob& wanted = job.backward;
  ScoreTile<T> scores = score_tile(at.rows, keys, at.buffers.scores);
  scores.partial = scores.regular && (mask == TileMask::part || keys.count < attend::kKeyTile);
  ScoreTile<T> ds = scores;
  ds.scores = at.buffers.dp;
  const BackwardPanels<T> panels = backward_panels<T>(job, at.task->key_head, key_tile);
  const bool to_scores = wanted.wants_q || wanted.wants_k || wanted.wants_shift || wanted.wants_terms;
  scores_again(at, scores, panels, mask);
  if (to_scores) {
    probability_gradients(at, ds, panels);
    job.dropout.present ? dropped_score_gradients(at, scores) : score_gradients(at);
  } else {
    probabilities<T>(at.rows.tile->count, at.buffers.lse, scores.scores);
    if (job.dropout.present) drop_weights(scores, 0);
  }
  const BackwardTile<T> tile = backward_tile_of<T>(at, nullptr);
  each_term(job, at.base, [&](const auto& term, T* scratch) { term_backward_take(term, scores, tile, scratch); });
  if (wanted.wants_v) {
    add_to_keys(scores, KeyProduct<T>{.rows = at.buffers.out_gradient,
                                      .width = job.shape.padded_value_width,
                                      .out = value_gradient_of(at, keys),
                                      .next = next_rows<T>(job, panels.keys[0], job.shape.padded_width)});
  }
  if (!to_scores) return;
  for (std::int64_t d = 0; job.softcap > 0 && d < at.rows.tile->count * attend::kKeyTile; d += lanes<T>) {
    store(mul(load(ds.scores + d), load(at.buffers.slope + d)), ds.scores + d);
  }
  if (!job.terms.empty()) term_gradients(at, ds);
  content_gradients(at, ds, panels);
}
