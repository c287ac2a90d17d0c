// SPDX-License-Identifier: Apache-2.0
// Weights of some rows: the scores of the forward, kept in the caller's tensor until the row's maximum and sum are known, then made
// weights where they lie. Included once in each target's namespace, by cpu/attention/forward.inl.

/// Rows of a tile of queries that are asked for: first to end - 1 within the tile.
template <class T>
Columns wanted_rows(const RowTile<T>& rows) {
  const attend::WeightsJob& block = rows.job->weights;
  const std::int64_t first = rows.tile->first;
  return {std::max(block.query - first, std::int64_t{0}), std::min(block.query + block.weights.shape[1] - first, rows.tile->count)};
}

/// A row of the tile in one of the caller's tensors: Tk numbers.
template <class T>
T* row_of_block(const TensorView& x, const RowTile<T>& rows, std::int64_t row) {
  const attend::WeightsJob& block = rows.job->weights;
  return static_cast<T*>(x.data) + (rows.batch - block.batch) * x.strides[0] + (rows.tile->first + row - block.query) * x.strides[1] +
         (rows.head - block.head) * x.strides[2];
}

template <class T>
void fill_block(const TensorView& x, const RowTile<T>& rows, T value) {
  const Columns wanted = wanted_rows(rows);
  for (std::int64_t i = wanted.first; i < wanted.end; ++i) fill(row_of_block(x, rows, i), x.shape[3], value);
}

/// Scores of one tile of keys to the caller's tensor, and into the maxima and sums of their rows.
template <class T>
void keep_scores(const ScoreTile<T>& tile, TileMask mask, const KeyPanels<T>& panels, std::int64_t panel, const ForwardScratch<T>& s) {
  const RowTile<T>& rows = *tile.rows;
  const AddedRows<T> added = forward_scores(tile, mask, panels, panel, s);
  for (std::int64_t i = 0; added.data != nullptr && i < rows.tile->count; ++i) {
    const T* const more = added.row(i);
    for (int j = 0; j < attend::kKeyTile; ++j) tile.scores[i * attend::kKeyTile + j] += more[j];
  }
  const Columns wanted = wanted_rows(rows);
  for (std::int64_t i = wanted.first; i < wanted.end; ++i) {
    std::copy_n(tile.scores + i * attend::kKeyTile, tile.keys->count, row_of_block(rows.job->weights.weights, rows, i) + tile.keys->first);
  }
  update_softmax(SoftmaxRows<T>{.rows = rows.tile->count, .scores = tile.scores, .maximum = s.maximum, .sum = s.sum, .factor = s.factor});
}

/// e^(score - maximum) / sum, some columns at a time in the tile of scores.
template <class T>
void weights_of_scores(const RowTile<T>& rows, const ForwardScratch<T>& s) {
  const TensorView& to = rows.job->weights.weights;
  const Columns wanted = wanted_rows(rows);
  for (std::int64_t first = 0; first < to.shape[3]; first += attend::kKeyTile) {
    const std::int64_t count = std::min(attend::kKeyTile, to.shape[3] - first);
    for (std::int64_t i = wanted.first; i < wanted.end; ++i) {
      std::copy_n(row_of_block(to, rows, i) + first, count, s.scores + i * attend::kKeyTile);
    }
    probabilities<T>(wanted.end - wanted.first, s.maximum + wanted.first, s.scores + wanted.first * attend::kKeyTile);
    for (std::int64_t i = wanted.first; i < wanted.end; ++i) {
      const T inverse = s.sum[i] == 0 ? T{0} : T{1} / s.sum[i];
      T* const out = row_of_block(to, rows, i) + first;
      for (std::int64_t j = 0; j < count; ++j) out[j] = s.scores[i * attend::kKeyTile + j] * inverse;
    }
  }
}

/// What dropout multiplies the weights of a tile of keys by.
template <class T>
void store_factors(const ScoreTile<T>& tile) {
  const RowTile<T>& rows = *tile.rows;
  const Columns wanted = wanted_rows(rows);
  DropoutBlocks blocks;
  find_blocks(tile.key_positions, tile.keys->count, blocks);
  DropoutRow<T> row;
  fill(row.factor, attend::kKeyTile, T{1});
  for (std::int64_t i = wanted.first; i < wanted.end; ++i) {
    if (rows.job->dropout.present) draw_row(tile, blocks, i, row);
    std::copy_n(row.factor, tile.keys->count, row_of_block(rows.job->weights.factors, rows, i) + tile.keys->first);
  }
}

/// A tile of queries of one head.
template <class T>
void weights_task(const attend::AttentionJob& job, std::int64_t task, T* base) {
  const attend::WeightsJob& block = job.weights;
  const std::int64_t heads = block.weights.shape[2];
  const attend::TokenTile& tile = job.query_tiles[static_cast<std::size_t>(block.tiles[static_cast<std::size_t>(task / heads)])];
  const attend::Sequence& sequence = job.sequences[static_cast<std::size_t>(tile.sequence)];
  const ForwardScratch<T> s = forward_scratch(forward_layout(job), base);
  RowTile<T> rows = row_tile<T>(job, tile, block.head + task % heads);
  const std::int64_t panel = rows.head / job.shape.group() * static_cast<std::int64_t>(job.key_tiles.size());
  KeyPanels<T> panels = {.keys_transposed = {}, .values = nullptr, .first = 0};
  for (int c = 0; c < job.content_count; ++c) panels.keys_transposed[c] = static_cast<const T*>(job.panels.keys_transposed[c]);
  panels.values = panels.keys_transposed[0];  // of the same size: what is asked for ahead; nobody reads it
  begin_rows(rows, s);
  fill_block(block.weights, rows, -std::numeric_limits<T>::infinity());
  if (block.factors.data != nullptr) fill_block(block.factors, rows, T{0});
  for (std::int64_t k = sequence.end_key_tile - 1; k >= sequence.first_key_tile; --k) {
    const attend::TokenTile& keys = job.key_tiles[static_cast<std::size_t>(k)];
    ScoreTile<T> scores = score_tile(rows, keys, s.scores);
    if (block.factors.data != nullptr) store_factors(scores);
    const TileMask mask = mask_of(job, tile, keys);
    if (mask == TileMask::none) continue;
    scores.partial = scores.regular && (mask == TileMask::part || keys.count < attend::kKeyTile);
    keep_scores(scores, mask, panels, panel + k, s);
  }
  if (job.sinks != nullptr) take_sink(rows, s.maximum, s.sum, s.out);
  weights_of_scores(rows, s);
}

template <class T>
void weights_strip_of(const attend::AttentionJob& job, std::int64_t strip) {
  const std::int64_t tasks = static_cast<std::int64_t>(job.weights.tiles.size()) * job.weights.weights.shape[2];
  each_task<T>(job, tasks, strip, [&](std::int64_t task, T* base) { weights_task(job, task, base); });
}
