// SPDX-License-Identifier: Apache-2.0
// The backward loops: packing panels, tasks, adding parts, storing. Included once in each target's namespace.

// clang-format off
#include "cpu/attention/loops.inl"
#include "cpu/attention/sinks.inl"
#include "cpu/attention/dropout.inl"
#include "cpu/attention/backward/rows.inl"
#include "cpu/attention/backward/sinks.inl"
#include "cpu/attention/backward/tile.inl"
// clang-format on

template <class T>
void clear_key_gradients(const attend::AttentionJob& job, const BackwardTask& task) {
  for (std::int64_t k = task.key_tiles.first; k < task.key_tiles.end; ++k) {
    const attend::TokenTile& keys = job.key_tiles[static_cast<std::size_t>(k)];
    const std::int64_t row = key_row_of(job, keys, task.key_head);
    const auto clear = [&](void* buffer, std::int64_t width) {
      if (buffer != nullptr) fill(rows_at<T>(buffer, row, width), keys.count * width, T{0});
    };
    each_key_buffer(job, [&](void* buffer) { clear(buffer, job.shape.padded_width); });
    clear(job.backward.v, job.shape.padded_value_width);
  }
}

/// A tile of queries of one head against the task's tiles of keys, from the first to the last.
template <class T>
void backward_rows(BackwardRows<T>& at) {
  const attend::AttentionJob& job = *at.rows.job;
  each_query_buffer(job, [&](void* buffer) {
    T* const out = rows_at<T>(buffer, query_row_of(at), job.shape.padded_width);
    if (out != nullptr) fill(out, at.rows.tile->count * job.shape.padded_width, T{0});
  });
  bool begun = false;
  for (std::int64_t k = at.task->key_tiles.first; k < at.task->key_tiles.end; ++k) {
    const attend::TokenTile& keys = job.key_tiles[static_cast<std::size_t>(k)];
    const TileMask mask = mask_of(job, *at.rows.tile, keys);
    if (mask == TileMask::none) continue;
    if (!begun) begin_backward_rows(at);
    begun = true;
    backward_tile(at, keys, k, mask);
  }
  if (begun) finish_backward_rows(at);
}

/// One sequence of a task.
template <class T>
void backward_sequence(const attend::AttentionJob& job, const BackwardTask& task, const attend::Sequence& sequence, T* base) {
  const BackwardBuffers<T> buffers = backward_buffers(job, base);
  clear_key_gradients<T>(job, task);
  for (std::int64_t g = 0; g < job.shape.group(); ++g) {
    const std::int64_t head = task.key_head * job.shape.group() + g;
    for (std::int64_t t = sequence.first_query_tile; t < sequence.end_query_tile; ++t) {
      BackwardRows<T> at = {
          .rows = row_tile<T>(job, job.query_tiles[static_cast<std::size_t>(t)], head), .task = &task, .buffers = buffers, .base = base};
      backward_rows(at);
    }
  }
}

template <class T>
void backward_task(const attend::AttentionJob& job, std::int64_t number, T* base) {
  BackwardTask task = backward_task_of(job, number);
  const std::int64_t first_head = task.key_head * job.shape.group();
  T* const shifts = rows_at<T>(job.backward.shift, slot_of(job, task.group, task.part, first_head), job.shape.padded_width);
  if (shifts != nullptr) fill(shifts, job.shape.group() * job.shape.padded_width, T{0});
  const attend::SequenceGroup& group = job.groups[static_cast<std::size_t>(task.group)];
  for (std::int64_t s = group.first; s < group.end; ++s) {
    const attend::Sequence& sequence = job.sequences[static_cast<std::size_t>(s)];
    task.key_tiles = attend::key_tiles_of(sequence, task.part, job.backward.parts);
    backward_sequence(job, task, sequence, base);
  }
}

// ---- Packing ----

/// A key tile of one head, to be packed.
struct PackedTile {
  const attend::AttentionJob* job;
  const attend::TokenTile* tile;
  RowsAt at;
};

/// rows: (kKeyTile, padded width); transposed: its transpose.
template <class T>
void pack_both_ways(const PackedTile& packed, const ConstTensorView& view, std::int64_t width, T* rows, T* transposed) {
  pack_rows<T>(const_stored_rows(view, packed.at), {rows, width, attend::kKeyTile}, T{1});
  clear_unseen(*packed.job, *packed.tile, width, rows);
  transpose<T>({rows, width, attend::kKeyTile}, width, {transposed, attend::kKeyTile, width});
}

template <class T>
void pack_backward_task(const attend::AttentionJob& job, std::int64_t task, T* base) {
  const auto key_tiles = static_cast<std::int64_t>(job.key_tiles.size());
  const attend::TokenTile& tile = job.key_tiles[static_cast<std::size_t>(task % key_tiles)];
  const std::int64_t batch = job.sequences[static_cast<std::size_t>(tile.sequence)].batch;
  const PackedTile packed = {.job = &job, .tile = &tile, .at = {batch, tile.first, task / key_tiles, tile.count}};
  const std::int64_t panel = task * attend::kKeyTile;
  const std::int64_t width = job.shape.padded_width;
  for (int c = 0; c < job.content_count; ++c) {
    pack_both_ways(packed, job.contents[c].k, width, rows_at<T>(job.panels.keys[c], panel, width),
                   rows_at<T>(job.panels.keys_transposed[c], panel, width));
  }
  const std::int64_t value_width = job.shape.padded_value_width;
  pack_both_ways(packed, job.v, value_width, backward_buffers(job, base).spare,
                 rows_at<T>(job.panels.values_transposed, panel, value_width));
}

// ---- After the tasks ----

/// Every part of the gradients by q of one head, added to the first.
template <class T>
void add_parts_task(const attend::AttentionJob& job, std::int64_t task) {
  const std::int64_t count = job.shape.queries * job.shape.padded_width;
  const std::int64_t next = job.shape.batch * job.shape.heads * count;
  each_query_buffer(job, [&](void* buffer) {
    for (std::int64_t p = 1; p < job.backward.parts && buffer != nullptr; ++p) {
      T* const sum = static_cast<T*>(buffer) + task * count;
      for (std::int64_t d = 0; d < count; d += lanes<T>) store(add(load(sum + d), load(sum + p * next + d)), sum + d);
    }
  });
}

/// One head of a buffer (B, heads, tokens, width) to the caller's tensor.
template <class T>
void store_head(const void* buffer, std::int64_t width, std::int64_t number, const TensorView& out) {
  const std::int64_t tokens = out.shape[1];
  const T* const rows = static_cast<const T*>(buffer) + number * tokens * width;
  unpack_rows<T>({rows, width, tokens}, nullptr, stored_rows(out, {number / out.shape[2], 0, number % out.shape[2], tokens}));
}

template <class T>
void store_gradients_task(const attend::AttentionJob& job, std::int64_t task) {
  const attend::BackwardJob& b = job.backward;
  if (b.wants_q) store_head<T>(b.q_raw, job.shape.padded_width, task, b.q_out);
  if (task >= job.shape.batch * job.shape.key_heads) return;
  if (b.wants_k) store_head<T>(b.k_raw, job.shape.padded_width, task, b.k_out);
  if (b.wants_v) store_head<T>(b.v, job.shape.padded_value_width, task, b.v_out);
}

// ---- Strips ----

template <class T>
void backward_strip_of(const attend::AttentionJob& job, BackwardStage stage, std::int64_t strip) {
  const auto key_tiles = static_cast<std::int64_t>(job.key_tiles.size());
  const auto groups = static_cast<std::int64_t>(job.groups.size());
  const std::int64_t heads = job.shape.batch * job.shape.heads;
  switch (stage) {
    case BackwardStage::pack:
      return each_task<T>(job, job.shape.key_heads * key_tiles, strip, [&](std::int64_t t, T* base) { pack_backward_task(job, t, base); });
    case BackwardStage::tasks:
      return each_task<T>(job, groups * job.shape.key_heads * job.backward.parts, strip,
                          [&](std::int64_t t, T* base) { backward_task(job, t, base); });
    case BackwardStage::add_parts:
      return each_task<T>(job, heads, strip, [&](std::int64_t t, T* /*base*/) { add_parts_task<T>(job, t); });
    case BackwardStage::sinks:
      return each_task<T>(job, static_cast<std::int64_t>(job.query_tiles.size()) * job.shape.heads, strip,
                          [&](std::int64_t t, T* base) { sink_gradient_task(job, t, base); });
    case BackwardStage::store:
      return each_task<T>(job, heads, strip, [&](std::int64_t t, T* /*base*/) { store_gradients_task<T>(job, t); });
  }
}

void backward_strip(const attend::AttentionJob& job, BackwardStage stage, std::int64_t strip) {
  job.arithmetic == DType::f64 ? backward_strip_of<double>(job, stage, strip) : backward_strip_of<float>(job, stage, strip);
}

constexpr AttentionBackwardKernels kKernels = {backward_strip};
