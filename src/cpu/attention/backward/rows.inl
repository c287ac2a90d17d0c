// SPDX-License-Identifier: Apache-2.0
// The backward's work on a tile of queries before its first key tile and after its last. Included once in each target's namespace.

/// (group of sequences, key head, part of their key tiles), and the sequence that it is at.
struct BackwardTask {
  std::int64_t group;
  std::int64_t key_head;
  std::int64_t part;
  attend::TileRange key_tiles;  // of the sequence
};

inline BackwardTask backward_task_of(const attend::AttentionJob& job, std::int64_t task) {
  const std::int64_t parts = job.backward.parts;
  return {.group = task / parts / job.shape.key_heads,
          .key_head = task / parts % job.shape.key_heads,
          .part = task % parts,
          .key_tiles = {0, 0}};
}

/// A tile of queries of one task.
template <class T>
struct BackwardRows {
  RowTile<T> rows;
  const BackwardTask* task;
  BackwardBuffers<T> buffers;
  T* base;  // of the strip: terms count from here
};

/// Where the gradient of a query's row begins, in rows of padded_width.
template <class T>
std::int64_t query_row_of(const BackwardRows<T>& at) {
  const attend::AttentionShape& shape = at.rows.job->shape;
  return ((at.task->part * shape.batch + at.rows.batch) * shape.heads + at.rows.head) * shape.queries + at.rows.tile->first;
}
inline std::int64_t key_row_of(const attend::AttentionJob& job, const attend::TokenTile& keys, std::int64_t key_head) {
  const std::int64_t batch = job.sequences[static_cast<std::size_t>(keys.sequence)].batch;
  return (batch * job.shape.key_heads + key_head) * job.shape.keys + keys.first;
}

/// Rows of one of the job's buffers; null where it is not wanted.
template <class T>
T* rows_at(void* buffer, std::int64_t row, std::int64_t width) {
  return buffer == nullptr ? nullptr : static_cast<T*>(buffer) + row * width;
}

/// body(buffer, its width) for every different buffer of gradients by q, or by k.
template <class Body>
void each_query_buffer(const attend::AttentionJob& job, const Body& body) {
  for (int c = 0; c < job.content_count; ++c) body(job.backward.q[c]);
  if (job.backward.q_raw != job.backward.q[0]) body(job.backward.q_raw);
}
template <class Body>
void each_key_buffer(const attend::AttentionJob& job, const Body& body) {
  for (int c = 0; c < job.content_count; ++c) body(job.backward.k[c]);
  if (job.backward.k_raw != job.backward.k[0]) body(job.backward.k_raw);
}

template <class T>
BackwardTile<T> backward_tile_of(const BackwardRows<T>& at, T* k_gradient) {
  const attend::AttentionJob& job = *at.rows.job;
  return {.out_gradient = at.buffers.out_gradient,
          .q_gradient = rows_at<T>(job.backward.q_raw, query_row_of(at), job.shape.padded_width),
          .k_gradient = k_gradient,
          .slot = slot_of(job, at.task->group, at.task->part, at.rows.head)};
}

/// One number per query of a tensor (B, Tq, H, 1) of T.
template <class T>
const T* number_of(const ConstTensorView& view, const RowTile<T>& rows, std::int64_t row) {
  return static_cast<const T*>(view.data) + rows.batch * view.strides[0] + (rows.tile->first + row) * view.strides[1] +
         rows.head * view.strides[2];
}

/// <do_i, o_i> - dlse_i: what the softmax subtracts from the gradient by its probabilities.
template <class T>
void row_sums(const BackwardRows<T>& at) {
  const attend::AttentionJob& job = *at.rows.job;
  const std::int64_t width = job.shape.padded_value_width;
  const T* const out = at.buffers.spare;
  for (std::int64_t i = 0; i < at.rows.tile->count; ++i) {
    Reg<T> sum = zero<T>();
    for (std::int64_t d = i * width; d < (i + 1) * width; d += lanes<T>)
      sum = mul_add(load(at.buffers.out_gradient + d), load(out + d), sum);
    at.buffers.row_sum[i] = reduce_sum(sum);
    if (job.backward.lse_gradient.data != nullptr) at.buffers.row_sum[i] -= *number_of(job.backward.lse_gradient, at.rows, i);
  }
}

/// Queries that see no key: whatever their memory holds, NaN perhaps, takes no part.
template <class T>
void clear_blind_rows(const BackwardRows<T>& at) {
  const attend::AttentionJob& job = *at.rows.job;
  for (std::int64_t i = 0; i < at.rows.tile->count; ++i) {
    if (!is_blind(at.rows, i, at.buffers.lse[i])) continue;
    const std::int64_t width = job.shape.padded_width;
    for (int c = 0; c < job.content_count; ++c) fill(at.buffers.content_q[c] + i * width, width, T{0});
    if (!job.terms.empty()) fill(at.buffers.q + i * width, width, T{0});
    fill(at.buffers.out_gradient + i * job.shape.padded_value_width, job.shape.padded_value_width, T{0});
    at.buffers.row_sum[i] = 0;
  }
}

template <class T>
ContentRows<T> content_rows_of(const BackwardBuffers<T>& buffers) {
  ContentRows<T> content = {.q = {}, .decayed = buffers.spare};
  for (int c = 0; c < attend::kMaxContents; ++c) content.q[c] = buffers.content_q[c];
  return content;
}

/// What the forward gave and what flows in: lse, out_gradient, and out, in `spare`.
template <class T>
void load_saved(const BackwardRows<T>& at) {
  const attend::AttentionJob& job = *at.rows.job;
  const BackwardBuffers<T>& b = at.buffers;
  const std::int64_t value_width = job.shape.padded_value_width;
  const RowsAt place = {at.rows.batch, at.rows.tile->first, at.rows.head, at.rows.tile->count};
  for (std::int64_t i = 0; i < at.rows.tile->count; ++i) b.lse[i] = *number_of(job.backward.lse, at.rows, i);
  pack_rows<T>(const_stored_rows(job.backward.out_gradient, place), {b.out_gradient, value_width, at.rows.tile->count}, T{1});
  pack_rows<T>(const_stored_rows(job.backward.out, place), {b.spare, value_width, at.rows.tile->count}, T{1});
}

template <class T>
void begin_backward_rows(BackwardRows<T>& at) {
  const attend::AttentionJob& job = *at.rows.job;
  const BackwardBuffers<T>& b = at.buffers;
  load_saved(at);
  row_sums(at);
  pack_content_rows(at.rows, content_rows_of(b));
  if (!job.terms.empty()) {
    pack_queries(job.q, at.rows, T{1}, b.q);
    at.rows.q = b.q;
  }
  clear_blind_rows(at);
  for (T* tile : {b.scores, b.dp, b.slope}) {  // what partial tiles leave out is read, and must be numbers
    if (tile != nullptr) fill(tile, at.rows.tile->count * attend::kKeyTile, T{0});
  }
  for (int c = 0; c < job.content_count; ++c) fill(b.content_gradient[c], at.rows.tile->count * job.shape.padded_width, T{0});
  const BackwardTile<T> tile = backward_tile_of<T>(at, nullptr);
  each_term(job, at.base, [&](const auto& term, T* scratch) { term_backward_begin(term, at.rows, tile, scratch); });
}

/// Sums over the rows, added to the slot's.
template <class T>
void add_shift_gradient(const BackwardRows<T>& at) {
  const attend::AttentionJob& job = *at.rows.job;
  const std::int64_t width = job.shape.padded_width;
  T* const out = rows_at<T>(job.backward.shift, slot_of(job, at.task->group, at.task->part, at.rows.head), width);
  const Reg<T> scale = set(static_cast<T>(job.scale));
  for (std::int64_t d = 0; d < width; d += lanes<T>) {
    Reg<T> sum = zero<T>();
    for (std::int64_t i = 0; i < at.rows.tile->count; ++i) sum = add(sum, load(at.buffers.content_gradient[0] + i * width + d));
    store(mul_add(scale, sum, load(out + d)), out + d);
  }
}

template <class T>
void finish_backward_rows(const BackwardRows<T>& at) {
  const attend::AttentionJob& job = *at.rows.job;
  const BackwardTile<T> tile = backward_tile_of<T>(at, nullptr);
  each_term(job, at.base, [&](const auto& term, T* scratch) { term_backward_finish(term, at.rows, tile, scratch); });
  if (job.backward.wants_shift) add_shift_gradient(at);
  const Reg<T> scale = set(static_cast<T>(job.scale));
  for (int c = 0; c < job.content_count && job.backward.wants_q; ++c) {
    T* const out = rows_at<T>(job.backward.q[c], query_row_of(at), job.shape.padded_width);
    const T* const in = at.buffers.content_gradient[c];
    for (std::int64_t d = 0; d < at.rows.tile->count * job.shape.padded_width; d += lanes<T>) {
      store(mul_add(scale, load(in + d), load(out + d)), out + d);
    }
  }
}
