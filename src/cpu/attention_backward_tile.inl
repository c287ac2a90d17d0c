// SPDX-License-Identifier: Apache-2.0
// The backward of one tile of scores: probabilities again, their gradient, and what it reaches. Included once in each target's namespace.

/// Panels of one key tile.
template <class T>
struct BackwardPanels {
  const T* keys_transposed[job::kMaxContents];
  const T* keys[job::kMaxContents];
  const T* values_transposed;
};
template <class T>
BackwardPanels<T> backward_panels(const job::AttentionJob& job, std::int64_t key_head, std::int64_t key_tile) {
  const std::int64_t panel = key_head * static_cast<std::int64_t>(job.key_tiles.size()) + key_tile;
  const std::int64_t size = panel * job.shape.padded_width * job::kKeyTile;
  BackwardPanels<T> p = {};
  for (int c = 0; c < job.content_count; ++c) {
    p.keys_transposed[c] = static_cast<const T*>(job.panels.keys_transposed[c]) + size;
    p.keys[c] = static_cast<const T*>(job.panels.keys[c]) + size;
  }
  p.values_transposed = static_cast<const T*>(job.panels.values_transposed) + panel * job.shape.padded_value_width * job::kKeyTile;
  return p;
}

/// cap tanh(s / cap), and its slope.
template <class T>
void cap_with_slope(const RowTile<T>& rows, T* scores, T* slope) {
  const auto cap = static_cast<T>(rows.job->softcap);
  const Reg<T> inverse = set(T{1} / cap);
  for (std::int64_t at = 0; at < rows.tile->count * job::kKeyTile; at += lanes<T>) {
    const Reg<T> t = hyperbolic_tangent<T>(mul(load(scores + at), inverse));
    store(mul(set(cap), t), scores + at);
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
    T* const p = b.scores + i * job::kKeyTile;
    T* const dp = b.dp + i * job::kKeyTile;
    HWY_UNROLL(8)
    for (int j = 0; j < job::kKeyTile; j += lanes<T>) {
      const Reg<T> probability = exponential<T>(sub(load(p + j), lse));
      const Reg<T> ds = mul(probability, sub(load(dp + j), row_sum));
      store(probability, p + j);
      store(zero_if(less(probability, set(std::numeric_limits<T>::min())), ds), dp + j);
    }
  }
}

/// Scores as the forward made them, -infinity where not seen.
template <class T>
void scores_again(const BackwardRows<T>& at, const ScoreTile<T>& tile, const BackwardPanels<T>& panels, TileSight sight) {
  const job::AttentionJob& job = *at.rows.job;
  content_scores(tile, content_rows_of(at.buffers), panels.keys_transposed, at.buffers.dp);
  each_term(job, at.base, [&](const auto& term, T* scratch) { term_add(term, tile, scratch); });
  if (job.softcap > 0) cap_with_slope(at.rows, tile.scores, at.buffers.slope);
  if (sight == TileSight::part || tile.keys->count < job::kKeyTile) mask_tile(tile, -std::numeric_limits<T>::infinity());
}

/// dp = do v^T, and what terms on the side of values add.
template <class T>
void probability_gradients(const BackwardRows<T>& at, const ScoreTile<T>& dp, const BackwardPanels<T>& panels) {
  const job::AttentionJob& job = *at.rows.job;
  gemm(Gemm<T>{.m = at.rows.tile->count,
               .n = job::kKeyTile,
               .k = job.shape.value_width,
               .a = at.buffers.out_gradient,
               .a_row = job.shape.padded_value_width,
               .a_k = 1,
               .b = panels.values_transposed,
               .b_row = job::kKeyTile,
               .c = dp.scores,
               .c_row = job::kKeyTile,
               .add = false});
  const BackwardTile<T> tile = backward_tile_of<T>(at, nullptr);
  each_term(job, at.base, [&](const auto& term, T* scratch) { term_backward_values(term, dp, tile, scratch); });
}

/// out (keys, width) += a^T b: what the rows of b give to keys by the weights a.
template <class T>
void add_to_keys(const ScoreTile<T>& weights, const T* b, std::int64_t width, T* out) {
  gemm(Gemm<T>{.m = weights.keys->count,
               .n = width,
               .k = weights.rows->tile->count,
               .a = weights.scores,
               .a_row = 1,
               .a_k = job::kKeyTile,
               .b = b,
               .b_row = width,
               .c = out,
               .c_row = width,
               .add = true});
}
/// out (queries, width) += ds k.
template <class T>
void add_to_queries(const ScoreTile<T>& ds, const T* keys, T* out) {
  const std::int64_t width = ds.rows->job->shape.padded_width;
  gemm(Gemm<T>{.m = ds.rows->tile->count,
               .n = width,
               .k = ds.keys->count,
               .a = ds.scores,
               .a_row = job::kKeyTile,
               .a_k = 1,
               .b = keys,
               .b_row = width,
               .c = out,
               .c_row = width,
               .add = true});
}

/// The gradient of one content, whose queries and keys are given as they met.
template <class T>
void content_gradient(const BackwardRows<T>& at, const ScoreTile<T>& ds, int content, const T* q, const T* keys) {
  const job::AttentionJob& job = *at.rows.job;
  const std::int64_t width = job.shape.padded_width;
  if (job.backward.wants_q || job.backward.wants_shift) add_to_queries(ds, keys, at.buffers.content_gradient[content]);
  if (job.backward.wants_k) {
    add_to_keys(ds, q, width, rows_at<T>(job.backward.k[content], key_row_of(job, *ds.keys, at.task->key_head), width));
  }
}

/// Those scores that took this content; 0 elsewhere.
template <class T>
void share_of_content(const ScoreTile<T>& ds, int content, T* out) {
  const RowTile<T>& rows = *ds.rows;
  fill(out, rows.tile->count * job::kKeyTile, T{0});
  for (std::int64_t i = 0; i < rows.tile->count; ++i) {
    for (std::int64_t j = 0; j < ds.keys->count; ++j) {
      const std::int64_t at = i * job::kKeyTile + j;
      if (content_at(*rows.job, rows.positions[i], ds.key_positions[j]) == content) out[at] = ds.scores[at];
    }
  }
}

/// Every content's gradient. The probabilities have done their work by then: their tile is free.
template <class T>
void content_gradients(const BackwardRows<T>& at, const ScoreTile<T>& ds, const BackwardPanels<T>& panels) {
  const job::AttentionJob& job = *at.rows.job;
  const BackwardBuffers<T>& b = at.buffers;
  if (job.decay.present) {  // b.spare still holds the queries as they met
    const std::int64_t width = job.shape.padded_width;
    decay_factors(job, ds.distance, b.scores);
    for (std::int64_t d = 0; d < ds.keys->count * width; d += lanes<T>) {
      store(mul(load(panels.keys[0] + d), load(b.scores + d % width)), b.key_tile + d);
    }
    return content_gradient<T>(at, ds, 0, b.spare, b.key_tile);
  }
  const ContentSpan span = contents_of(job, *at.rows.tile, *ds.keys);
  if (span.first == span.last) return content_gradient<T>(at, ds, span.first, b.content_q[span.first], panels.keys[span.first]);
  ScoreTile<T> share = ds;
  share.scores = b.scores;
  for (int c = span.first; c <= span.last; ++c) {
    share_of_content(ds, c, share.scores);
    content_gradient<T>(at, share, c, b.content_q[c], panels.keys[c]);
  }
}

/// Terms get ds. Those that reach keys get a tile of kKeyTile rows, also where the last tile has fewer.
template <class T>
void term_gradients(const BackwardRows<T>& at, const ScoreTile<T>& ds) {
  const job::AttentionJob& job = *at.rows.job;
  const std::int64_t width = job.shape.padded_width;
  T* const keys = rows_at<T>(job.backward.k_raw, key_row_of(job, *ds.keys, at.task->key_head), width);
  const bool is_short = keys != nullptr && ds.keys->count < job::kKeyTile;
  T* const k_gradient = is_short ? at.buffers.key_tile : keys;
  if (is_short) fill(k_gradient, job::kKeyTile * width, T{0});
  const BackwardTile<T> tile = backward_tile_of<T>(at, k_gradient);
  each_term(job, at.base, [&](const auto& term, T* scratch) { term_gradient(term, ds, tile, scratch); });
  for (std::int64_t d = 0; is_short && d < ds.keys->count * width; d += lanes<T>)
    store(add(load(keys + d), load(k_gradient + d)), keys + d);
}

template <class T>
void backward_tile(const BackwardRows<T>& at, const job::TokenTile& keys, std::int64_t key_tile, TileSight sight) {
  const job::AttentionJob& job = *at.rows.job;
  const job::BackwardJob& wanted = job.backward;
  const ScoreTile<T> scores = score_tile(at.rows, keys, at.buffers.scores);
  const ScoreTile<T> ds = score_tile(at.rows, keys, at.buffers.dp);
  const BackwardPanels<T> panels = backward_panels<T>(job, at.task->key_head, key_tile);
  const bool to_scores = wanted.wants_q || wanted.wants_k || wanted.wants_shift || wanted.wants_terms;
  scores_again(at, scores, panels, sight);
  if (to_scores) {
    probability_gradients(at, ds, panels);
    score_gradients(at);
  } else {
    probabilities<T>(at.rows.tile->count, at.buffers.lse, scores.scores);
  }
  const BackwardTile<T> tile = backward_tile_of<T>(at, nullptr);
  each_term(job, at.base, [&](const auto& term, T* scratch) { term_backward_take(term, scores, tile, scratch); });
  const std::int64_t value_width = job.shape.padded_value_width;
  if (wanted.wants_v) {
    add_to_keys(scores, at.buffers.out_gradient, value_width, rows_at<T>(wanted.v, key_row_of(job, keys, at.task->key_head), value_width));
  }
  if (!to_scores) return;
  for (std::int64_t d = 0; job.softcap > 0 && d < at.rows.tile->count * job::kKeyTile; d += lanes<T>) {
    store(mul(load(ds.scores + d), load(at.buffers.slope + d)), ds.scores + d);
  }
  if (!job.terms.empty()) term_gradients(at, ds);
  content_gradients(at, ds, panels);
}
