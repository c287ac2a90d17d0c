// SPDX-License-Identifier: Apache-2.0
// What the loops of forward and backward share: terms one by one, tiles of queries, tasks of a strip. Included once in each target's
// namespace.

/// body(term, its scratch) for every term.
template <class T, class Body>
void each_term(const attend::AttentionJob& job, T* scratch, const Body& body) {
  for (std::size_t t = 0; t < job.terms.size(); ++t) {
    std::visit([&](const auto& term) { body(term, scratch + job.term_scratch[t]); }, job.terms[t]);
  }
}

template <class T>
T* strip_scratch(const attend::AttentionJob& job, std::int64_t strip) {
  return reinterpret_cast<T*>(job.scratch + strip * job.scratch_bytes);
}

template <class T>
RowTile<T> row_tile(const attend::AttentionJob& job, const attend::TokenTile& tile, std::int64_t head) {
  const std::int64_t batch = job.sequences[static_cast<std::size_t>(tile.sequence)].batch;
  return {.job = &job,
          .tile = &tile,
          .batch = batch,
          .head = head,
          .q = nullptr,
          .positions = job.query_positions + batch * job.query_position_stride + tile.first};
}

/// body(task, scratch) for the tasks of a strip.
template <class T, class Body>
void each_task(const attend::AttentionJob& job, std::int64_t tasks, std::int64_t strip, const Body& body) {
  const std::int64_t end = tasks * (strip + 1) / job.strips;
  for (std::int64_t task = tasks * strip / job.strips; task < end; ++task) body(task, strip_scratch<T>(job, strip));
}
