// SPDX-License-Identifier: Apache-2.0
// Decoding: few queries, many keys, so that reading the cache is what takes time. Keys and values are read where they lie; the query heads
// of a key head go together. Included once in each target's namespace, by cpu/attention/forward.inl.

#include "cpu/attention/decode_rows.inl"

/// Query heads that share a key head, and the rows of their queries, head after head. Terms see one head at a time.
template <class T>
struct HeadGroup {
  const attend::AttentionJob* job;
  const attend::TokenTile* queries;
  std::int64_t key_head;
  std::int64_t first;  // query head
  std::int64_t heads;

  std::int64_t rows() const { return heads * queries->count; }
};

/// Scratch as the rows of one head of a group see it.
template <class T>
ForwardScratch<T> head_scratch(const HeadGroup<T>& group, std::int64_t head, ForwardScratch<T> s) {
  const std::int64_t row = head * group.queries->count;
  const attend::AttentionShape& shape = group.job->shape;
  for (int c = 0; c < group.job->content_count; ++c) s.content.q[c] += row * shape.padded_width;
  s.scores += row * attend::kKeyTile;
  s.out += row * shape.padded_value_width;
  s.maximum += row;
  s.sum += row;
  s.factor += row;
  return s;
}

/// Where a tile of keys lies, and how many tokens further on the next one does (0: there is none). Rows of one head may lie far apart, so
/// that no machine guesses where the next are: every loop over rows asks for those of the next tile.
struct TileAt {
  RowsAt rows;
  std::int64_t next;
};

/// Rows of a tensor's tile as T: where they lie, or packed to `scratch`.
template <class T>
struct TileRows {
  const T* data;
  std::int64_t stride;
  const T* next;  // rows of the next tile; null where they were asked for already
};
template <class T>
TileRows<T> tile_rows(const ConstTensorView& x, const TileAt& at, bool packed, T* scratch) {
  ConstStoredRows rows = const_stored_rows(x, at.rows);
  rows.ahead = at.next * rows.stride;
  constexpr DType kOwn = std::is_same_v<T, double> ? DType::f64 : DType::f32;
  if (!packed && rows.dtype == kOwn && rows.width == padded(rows.width)) {
    const T* const data = static_cast<const T*>(rows.data);
    return {data, rows.stride, at.next == 0 ? nullptr : data + rows.ahead};
  }
  pack_rows<T>(rows, {scratch, padded(rows.width), rows.rows}, T{1});
  return {scratch, padded(rows.width), nullptr};
}

/// The values of a tile; those that no query sees are zeros.
template <class T>
TileRows<T> value_rows(const attend::AttentionJob& job, const attend::TokenTile& keys, const TileAt& at, T* scratch) {
  const bool packed = has_unseen(job, keys);
  const TileRows<T> values = tile_rows(job.v, at, packed, scratch);
  if (packed) clear_unseen(job, keys, values.stride, scratch);
  return values;
}

/// Up to as many rows keys and values are read in place. More of them make up for packing, which widens 16-bit numbers once.
constexpr std::int64_t kRowsInPlace = 8;

template <DType dtype>
RowsInPlace<dtype> rows_in_place(const ConstStoredRows& rows, std::int64_t next) {
  const auto* const data = static_cast<const Stored<dtype>*>(rows.data);
  return {data, rows.stride, rows.rows, rows.width, next == 0 ? nullptr : data + next * rows.stride};
}
/// body(rows in place) in the dtype that the tensor has; false: it must be packed.
template <class T, class Body>
bool read_in_place(const HeadGroup<T>& group, const ConstTensorView& x, const TileAt& at, const Body& body) {
  const ConstStoredRows rows = const_stored_rows(x, at.rows);
  if (group.rows() > kRowsInPlace || rows.width != padded(rows.width)) return false;
  if constexpr (std::is_same_v<T, double>) {
    body(rows_in_place<DType::f64>(rows, at.next));
  } else {
    if (rows.dtype == DType::f32) body(rows_in_place<DType::f32>(rows, at.next));
    if (rows.dtype == DType::f16) body(rows_in_place<DType::f16>(rows, at.next));
    if (rows.dtype == DType::bf16) body(rows_in_place<DType::bf16>(rows, at.next));
  }
  return true;
}

/// Scores of a group by content alone.
template <class T>
void decode_content(const HeadGroup<T>& group, const attend::TokenTile& keys, const TileAt& at, const ForwardScratch<T>& s) {
  const attend::AttentionJob& job = *group.job;
  const std::int64_t width = job.shape.padded_width;
  if (job.content_count == 1 && job.decay.log_zeta == nullptr) {
    const DecodeScores<T> to = {group.rows(), s.content.q[0], s.scores};
    if (read_in_place(group, job.contents[0].k, at, [&](const auto& in_place) { scores_in_place(to, in_place); })) return;
    const TileRows<T> rows = tile_rows(job.contents[0].k, at, false, s.split_keys[0]);
    return dot_rows(Gemm<T>{.m = group.rows(),
                            .n = keys.count,
                            .k = width,
                            .a = s.content.q[0],
                            .a_row = width,
                            .a_k = 1,
                            .b = rows.data,
                            .b_row = rows.stride,
                            .c = s.scores,
                            .c_row = attend::kKeyTile,
                            .add = false,
                            .factor = nullptr,
                            .next = rows.next});
  }
  const T* transposed[attend::kMaxContents] = {};
  for (int c = 0; c < job.content_count; ++c) {
    pack_transposed<T>(const_stored_rows(job.contents[c].k, at.rows), {s.split_keys[c], attend::kKeyTile, width});
    transposed[c] = s.split_keys[c];
  }
  for (std::int64_t h = 0; h < group.heads; ++h) {
    const RowTile<T> rows = row_tile<T>(job, *group.queries, group.first + h);
    const ForwardScratch<T> own = head_scratch(group, h, s);
    content_scores(score_tile(rows, keys, own.scores), own.content, transposed, s.other);
  }
}

/// out <- factor out + p v
template <class T>
void decode_values(const HeadGroup<T>& group, const attend::TokenTile& keys, const TileRows<T>& values, const T* factor,
                   const ForwardScratch<T>& s) {
  const std::int64_t width = group.job->shape.padded_value_width;
  const std::int64_t step = values.next == nullptr ? keys.count : 16;  // so that what is asked for comes in parts
  for (std::int64_t j = 0; j < keys.count; j += step) {
    const std::int64_t count = std::min(step, keys.count - j);
    for (std::int64_t i = 0; i < count && values.next != nullptr; ++i) prefetch_row(values.next + (j + i) * values.stride, width);
    gemm(Gemm<T>{.m = group.rows(),
                 .n = width,
                 .k = count,
                 .a = s.scores + j,
                 .a_row = attend::kKeyTile,
                 .a_k = 1,
                 .b = values.data + j * values.stride,
                 .b_row = values.stride,
                 .c = s.out,
                 .c_row = width,
                 .add = true,
                 .factor = j == 0 ? factor : nullptr});
  }
}

/// One tile of keys for a group. With terms the group is one head, whose rows these are.
template <class T>
void decode_tile(const HeadGroup<T>& group, const RowTile<T>& first, const attend::TokenTile& keys, std::int64_t next,
                 const ForwardScratch<T>& s) {
  const attend::AttentionJob& job = *group.job;
  const TileMask mask = mask_of(job, *group.queries, keys);
  const TileAt at = {{first.batch, keys.first, group.key_head, keys.count}, next};
  decode_content(group, keys, at, s);
  const ScoreTile<T> tile = score_tile(first, keys, s.scores);
  each_term(job, s.base, [&](const auto& term, T* scratch) { term_add(term, tile, scratch); });
  for (std::int64_t h = 0; h < group.heads; ++h) {
    const ScoreTile<T> own = score_tile(first, keys, s.scores + h * group.queries->count * attend::kKeyTile);
    if (job.softcap > 0) cap_scores(first, own.scores);
    if (mask == TileMask::part || keys.count < attend::kKeyTile) mask_tile(own, -std::numeric_limits<T>::infinity());
  }
  const bool risen =
      update_softmax(SoftmaxRows<T>{.rows = group.rows(), .scores = s.scores, .maximum = s.maximum, .sum = s.sum, .factor = s.factor});
  for (std::int64_t h = 0; job.dropout.present && h < group.heads; ++h) {
    const RowTile<T> own = row_tile<T>(job, *group.queries, group.first + h);
    drop_weights(score_tile(own, keys, s.scores + h * group.queries->count * attend::kKeyTile), 0);
  }
  each_term(job, s.base, [&](const auto& term, T* scratch) {
    if (risen) term_rescale(term, first, s.factor, scratch);
    term_take(term, tile, scratch);
  });
  const T* const factor = risen ? s.factor : nullptr;
  const DecodeOut<T> to = {group.rows(), s.scores, factor, s.out};
  if (!has_unseen(job, keys) && read_in_place(group, job.v, at, [&](const auto& in_place) { values_in_place(to, in_place); })) return;
  decode_values(group, keys, value_rows(job, keys, at, s.split_values), factor, s);
}

/// A group against tiles of keys, from the last to the first.
template <class T>
void decode_rows(const HeadGroup<T>& group, Columns key_tiles, const ForwardScratch<T>& s) {
  const attend::AttentionJob& job = *group.job;
  RowTile<T> first = row_tile<T>(job, *group.queries, group.first);
  for (std::int64_t h = 0; h < group.heads; ++h) {
    pack_content_rows(row_tile<T>(job, *group.queries, group.first + h), head_scratch(group, h, s).content);
  }
  if (!job.terms.empty()) {
    pack_queries(job.q, first, T{1}, s.q);
    first.q = s.q;
  }
  each_term(job, s.base, [&](const auto& term, T* scratch) { term_begin(term, first, scratch); });
  fill(s.out, group.rows() * job.shape.padded_value_width, T{0});
  fill(s.maximum, attend::kQueryTile, -std::numeric_limits<T>::infinity());
  fill(s.sum, attend::kQueryTile, T{0});
  for (std::int64_t k = key_tiles.end - 1; k >= key_tiles.first; --k) {
    const attend::TokenTile& keys = job.key_tiles[static_cast<std::size_t>(k)];
    if (mask_of(job, *group.queries, keys) == TileMask::none) continue;
    if (skips_the_rest(first, s.maximum, k)) break;
    decode_tile(group, first, keys, k > key_tiles.first ? job.key_tiles[static_cast<std::size_t>(k - 1)].first - keys.first : 0, s);
  }
  each_term(job, s.base, [&](const auto& term, T* scratch) { term_finish(term, first, s.out, scratch); });
}

/// What a split found for a tile of queries of one head, to be merged.
template <class T>
void store_partial(const RowTile<T>& rows, std::int64_t split, const ForwardScratch<T>& s) {
  const attend::AttentionJob& job = *rows.job;
  const std::int64_t width = job.shape.padded_value_width;
  const std::int64_t tokens = job.shape.batch * job.shape.queries;
  for (std::int64_t i = 0; i < rows.tile->count; ++i) {
    const std::int64_t token = rows.batch * job.shape.queries + rows.tile->first + i;
    const std::int64_t at = (split * tokens + token) * job.shape.heads + rows.head;
    std::copy_n(s.out + i * width, width, static_cast<T*>(job.partial_out) + at * width);
    static_cast<T*>(job.partial_max)[at] = s.maximum[i];
    static_cast<T*>(job.partial_sum)[at] = s.sum[i];
  }
}

/// One split of the keys of a sequence and key head, for all its queries.
template <class T>
void split_task(const attend::AttentionJob& job, std::int64_t task, T* base) {
  // Heads of one token usually lie side by side: one after the other for the same keys, they find the pages at hand.
  const std::int64_t key_head = task % job.shape.key_heads;
  const std::int64_t split = task / job.shape.key_heads % job.key_splits;
  const attend::Sequence& sequence = job.sequences[static_cast<std::size_t>(task / job.key_splits / job.shape.key_heads)];
  const std::int64_t first = std::min(sequence.first_key_tile + split * attend::kSplitTiles, sequence.end_key_tile);
  const std::int64_t end = std::min(first + attend::kSplitTiles, sequence.end_key_tile);
  const ForwardScratch<T> s = forward_scratch(forward_layout(job), base);
  const std::int64_t heads = (key_head + 1) * job.shape.group();
  for (std::int64_t t = sequence.first_query_tile; t < sequence.end_query_tile; ++t) {
    const attend::TokenTile& queries = job.query_tiles[static_cast<std::size_t>(t)];
    const std::int64_t together = job.terms.empty() ? attend::kQueryTile / queries.count : 1;
    for (std::int64_t head = key_head * job.shape.group(); head < heads; head += together) {
      const HeadGroup<T> group = {&job, &queries, key_head, head, std::min(together, heads - head)};
      decode_rows(group, {first, end}, s);
      for (std::int64_t h = 0; h < group.heads; ++h) store_partial(row_tile<T>(job, queries, head + h), split, head_scratch(group, h, s));
    }
  }
}

/// The splits of one query tile of one head, made one, in order.
template <class T>
void merge_task(const attend::AttentionJob& job, std::int64_t task, T* base) {
  const auto query_tiles = static_cast<std::int64_t>(job.query_tiles.size());
  const RowTile<T> rows = row_tile<T>(job, job.query_tiles[static_cast<std::size_t>(task % query_tiles)], task / query_tiles);
  const ForwardScratch<T> s = forward_scratch(forward_layout(job), base);
  const std::int64_t width = job.shape.padded_value_width;
  const std::int64_t tokens = job.shape.batch * job.shape.queries;
  const T* const maxima = static_cast<const T*>(job.partial_max);
  for (std::int64_t i = 0; i < rows.tile->count; ++i) {
    const std::int64_t first = (rows.batch * job.shape.queries + rows.tile->first + i) * job.shape.heads + rows.head;
    T maximum = -std::numeric_limits<T>::infinity();
    for (std::int64_t p = 0; p < job.key_splits; ++p) {
      const T of_split = maxima[first + p * tokens * job.shape.heads];
      if (!(of_split <= maximum) && !std::isnan(maximum)) maximum = of_split;
    }
    T* const out = s.out + i * width;
    fill(out, width, T{0});
    T sum = 0;
    for (std::int64_t p = 0; p < job.key_splits && maximum != -std::numeric_limits<T>::infinity(); ++p) {
      const std::int64_t at = first + p * tokens * job.shape.heads;
      HWY_ALIGN T weights[lanes<T>];
      const Reg<T> weight = exponential<T>(set(maxima[at] - maximum));
      store(weight, weights);
      const T* const part = static_cast<const T*>(job.partial_out) + at * width;
      for (std::int64_t d = 0; d < width; d += lanes<T>) store(mul_add(weight, load(part + d), load(out + d)), out + d);
      sum += weights[0] * static_cast<const T*>(job.partial_sum)[at];
    }
    s.maximum[i] = maximum;
    s.sum[i] = sum;
  }
  store_rows(rows, s);
}
