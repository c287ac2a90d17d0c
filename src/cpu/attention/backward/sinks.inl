// SPDX-License-Identifier: Apache-2.0
// The gradient by sinks. A sink's probability is p = e^(sink - lse), and its value is zero: as every score it has the gradient
// p (<do, value> - (<do, o> - dlse)), that is, -p times the row's sum. Included once in each target's namespace.

/// Where a whole output is 0, its gradient counts for nothing, even if it is no number: queries that see no key.
template <class T>
void forget_unanswered(const BackwardRows<T>& at) {
  const std::int64_t width = at.rows.job->shape.padded_value_width;
  for (std::int64_t i = 0; i < at.rows.tile->count; ++i) {
    const T* const out = at.buffers.spare + i * width;
    if (std::all_of(out, out + width, [](T x) { return x == 0; })) fill(at.buffers.out_gradient + i * width, width, T{0});
  }
}

/// The rows of one query tile of one head. The host adds these sums up in order.
template <class T>
void sink_gradient_task(const attend::AttentionJob& job, std::int64_t task, T* base) {
  const auto query_tiles = static_cast<std::int64_t>(job.query_tiles.size());
  const attend::TokenTile& tile = job.query_tiles[static_cast<std::size_t>(task % query_tiles)];
  const BackwardRows<T> at = {
      .rows = row_tile<T>(job, tile, task / query_tiles), .task = nullptr, .buffers = backward_buffers(job, base), .base = base};
  const T sink = sink_of<T>(job, at.rows.head);
  double sum = 0;
  if (sink != -std::numeric_limits<T>::infinity()) {
    load_saved(at);
    forget_unanswered(at);
    row_sums(at);
    for (std::int64_t i = 0; i < tile.count; ++i)
      sum -= static_cast<double>(weight_under(sink, at.buffers.lse[i])) * static_cast<double>(at.buffers.row_sum[i]);
  }
  job.backward.sinks[task] = sum;
}
