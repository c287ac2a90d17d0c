// SPDX-License-Identifier: Apache-2.0
// Sinks: a logit per head that takes part in the softmax of every query and brings no value. Included once in each target's namespace.

/// Of a head; -infinity where there are none.
template <class T>
T sink_of(const attend::AttentionJob& job, std::int64_t head) {
  return job.sinks == nullptr ? -std::numeric_limits<T>::infinity() : static_cast<const T*>(job.sinks)[head];
}

/// e^(logit - top), also where both are infinite.
template <class T>
T weight_under(T logit, T top) {
  return logit == top ? T{1} : static_cast<T>(plan::weight_of_part(logit, top));
}

/// What a row has seen, with the sink as one more score after the last key, of a value of zeros: it needs no place in the loops.
template <class T>
void take_sink(const RowTile<T>& rows, T* maximum, T* sum, T* out) {
  const T sink = sink_of<T>(*rows.job, rows.head);
  const std::int64_t width = rows.job->shape.padded_value_width;
  if (sink == -std::numeric_limits<T>::infinity()) return;
  for (std::int64_t i = 0; i < rows.tile->count; ++i) {
    const T before = sum[i] == 0 ? -std::numeric_limits<T>::infinity() : maximum[i];
    maximum[i] = before < sink ? sink : before;
    const T factor = weight_under(before, maximum[i]);
    sum[i] = sum[i] * factor + weight_under(sink, maximum[i]);
    if (factor == 1) continue;
    for (std::int64_t d = i * width; d < (i + 1) * width; d += lanes<T>) store(mul(load(out + d), set(factor)), out + d);
  }
}

// ---- Backward ----

/// By mask and distance. Only asked of queries whose lse is their sink.
template <class T>
bool sees_a_key(const RowTile<T>& rows, std::int64_t row) {
  const attend::AttentionJob& job = *rows.job;
  const attend::Sequence& sequence = job.sequences[static_cast<std::size_t>(rows.tile->sequence)];
  for (std::int64_t k = sequence.first_key_tile; k < sequence.end_key_tile; ++k) {
    const attend::TokenTile& keys = job.key_tiles[static_cast<std::size_t>(k)];
    if (mask_of(job, *rows.tile, keys) == TileMask::none) continue;
    const ScoreTile<T> tile = score_tile(rows, keys, static_cast<T*>(nullptr));
    for (std::int64_t j = 0; j < keys.count; ++j) {
      if (visible_at(tile, row, j)) return true;
    }
  }
  return false;
}

/// Whether a query sees no key. An lse that is the sink does not say so yet: what it sees may be too little to change it.
template <class T>
bool is_blind(const RowTile<T>& rows, std::int64_t row, T lse) {
  if (lse == -std::numeric_limits<T>::infinity()) return true;
  return rows.job->sinks != nullptr && lse == sink_of<T>(*rows.job, rows.head) && !sees_a_key(rows, row);
}
