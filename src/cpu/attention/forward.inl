// SPDX-License-Identifier: Apache-2.0
// The forward loops: packing panels, tiles of queries against tiles of keys by an online softmax, merging splits. Included once in each
// target's namespace.

// clang-format off
#include "cpu/attention/loops.inl"
#include "cpu/attention/sinks.inl"
#include "cpu/attention/dropout.inl"
// clang-format on

/// Panels of keys and values that a tile of queries meets: panel `tile - first` of each.
template <class T>
struct KeyPanels {
  const T* keys_transposed[attend::kMaxContents];
  const T* values;
  std::int64_t first;
};

/// What a tile of queries does its work in.
template <class T>
struct ForwardScratch {
  ContentRows<T> content;
  T* q;
  T* scores;
  T* other;
  T* out;
  T* maximum;
  T* sum;
  T* factor;
  T* split_keys[attend::kMaxContents];  // decoding: a tile of keys a content, and of values
  T* split_values;
  T* base;  // of the strip: terms count from here
};

template <class T>
ForwardScratch<T> forward_scratch(const ForwardLayout& at, T* base) {
  ForwardScratch<T> s = {.content = {.q = {}, .decayed = base + at.decayed},
                         .q = base + at.q,
                         .scores = base + at.scores,
                         .other = base + at.other,
                         .out = base + at.out,
                         .maximum = base + at.maximum,
                         .sum = base + at.sum,
                         .factor = base + at.factor,
                         .split_keys = {},
                         .split_values = base + at.split_values,
                         .base = base};
  for (int c = 0; c < attend::kMaxContents; ++c) {
    s.content.q[c] = base + at.content[c];
    s.split_keys[c] = base + at.split_keys[c];
  }
  return s;
}

/// cap tanh(s / cap); -infinity stays.
template <class T>
void cap_scores(const RowTile<T>& rows, T* scores) {
  const auto cap = static_cast<T>(rows.job->softcap);
  const Reg<T> inverse = set(T{1} / cap);
  for (std::int64_t at = 0; at < rows.tile->count * attend::kKeyTile; at += lanes<T>) {
    const Reg<T> s = load(scores + at);
    store(capped_unless_hidden<T>(s, mul(set(cap), hyperbolic_tangent<T>(mul(s, inverse)))), scores + at);
  }
}

/// Whether a term certifies that this tile of keys and those before it do not matter.
template <class T>
bool skips_the_rest(const RowTile<T>& rows, const T* maximum, std::int64_t key_tile) {
  bool ends = false;
  if (!rows.job->certified_skip) return ends;
  for (const attend::TermJob& term : rows.job->terms) {
    std::visit([&](const auto& made) { ends = ends || term_ends(made, rows, maximum, key_tile); }, term);
  }
  return ends;
}

/// Elements of a panel that products bring nearer meanwhile: none where the near caches hold all panels of a head, so that it would only
/// cost time (2 percent).
template <class T>
std::int64_t prefetched(const attend::AttentionJob& job, std::int64_t width) {
  constexpr std::int64_t kNear = std::int64_t{1} << 20;  // bytes
  const std::int64_t panels =
      job.shape.keys * (job.shape.padded_width + job.shape.padded_value_width) * static_cast<std::int64_t>(sizeof(T));
  return panels > kNear ? width * attend::kKeyTile : 0;
}

/// out <- factor out + p v, over the slabs of a tile. `next_keys`: the next panel, tiles go from the last to the first.
template <class T>
void add_values(const ScoreTile<T>& tile, const T* values, const T* next_keys, const T* factor, T* out) {
  const std::int64_t width = tile.rows->job->shape.padded_value_width;
  const std::int64_t next_count =
      next_keys == nullptr || tile.partial ? 0 : prefetched<T>(*tile.rows->job, tile.rows->job->shape.padded_width);
  Slab slab = {};
  for (std::int64_t row = 0; row < tile.rows->tile->count; row += slab.rows) {
    slab = slab_at(tile, row);
    if (slab.columns == 0) continue;  // its factors are 1
    gemm(Gemm<T>{.m = slab.rows,
                 .n = width,
                 .k = slab.columns,
                 .a = tile.scores + row * attend::kKeyTile + slab.first,
                 .a_row = attend::kKeyTile,
                 .a_k = 1,
                 .b = values + slab.first * width,
                 .b_row = width,
                 .c = out + row * width,
                 .c_row = width,
                 .add = true,
                 .factor = factor == nullptr ? nullptr : factor + row,
                 .next = next_keys,
                 .next_count = next_count});
  }
}

/// The first term that says what it adds, so that the softmax does it on its way; returns its number, or that of no term.
template <class T>
std::size_t added_with_softmax(const ScoreTile<T>& tile, T* base, T* line, AddedRows<T>& added) {
  const attend::AttentionJob& job = *tile.rows->job;
  std::size_t t = 0;
  for (; t < job.terms.size() && added.data == nullptr; ++t) {
    std::visit([&](const auto& term) { added = term_added(term, tile, base + job.term_scratch[t], line); }, job.terms[t]);
  }
  return added.data == nullptr ? job.terms.size() : t - 1;
}

/// Scores of a tile of keys, terms, soft cap and mask included, but for what is still to be added, which may lie in s.other.
template <class T>
AddedRows<T> forward_scores(const ScoreTile<T>& tile, TileMask mask, const KeyPanels<T>& panels, std::int64_t panel,
                            const ForwardScratch<T>& s) {
  const attend::AttentionJob& job = *tile.rows->job;
  const T* keys[attend::kMaxContents];
  for (int c = 0; c < job.content_count; ++c) keys[c] = panels.keys_transposed[c] + panel * job.shape.padded_width * attend::kKeyTile;
  ContentRows<T> content = s.content;
  content.next = panels.values + panel * job.shape.padded_value_width * attend::kKeyTile;
  content.next_count = prefetched<T>(job, job.shape.padded_value_width);
  content_scores(tile, content, keys, s.other);
  const bool whole = mask == TileMask::all && tile.keys->count == attend::kKeyTile;
  AddedRows<T> added;
  const std::size_t later = whole && job.softcap <= 0 ? added_with_softmax(tile, s.base, s.other, added) : job.terms.size();
  for (std::size_t t = 0; t < job.terms.size(); ++t) {
    if (t == later) continue;
    std::visit([&](const auto& term) { term_add(term, tile, s.base + job.term_scratch[t]); }, job.terms[t]);
  }
  if (job.softcap > 0) cap_scores(*tile.rows, tile.scores);
  if (!whole) mask_tile(tile, -std::numeric_limits<T>::infinity());
  return added;
}

inline bool wants_all_rows(const attend::TermJob& term) {
  return std::visit([](const auto& made) { return takes_probabilities(made); }, term);
}

/// Rows before the first one that sees a key of the tile, in sixteens.
template <class T>
std::int64_t blind_rows(const ScoreTile<T>& tile) {
  const auto& terms = tile.rows->job->terms;
  if (!tile.partial || std::any_of(terms.begin(), terms.end(), wants_all_rows)) return 0;
  std::int64_t row = 0;
  while (row + 16 < tile.rows->tile->count && columns_seen(*tile.rows->job, *tile.keys, tile.distance + row + 15).end == 0) row += 16;
  return row;
}

/// One tile of keys: scores, softmax, values.
template <class T>
void forward_tile(const ScoreTile<T>& tile, TileMask mask, const KeyPanels<T>& panels, std::int64_t panel, const ForwardScratch<T>& s) {
  const RowTile<T>& rows = *tile.rows;
  const attend::AttentionJob& job = *rows.job;
  const AddedRows<T> added = forward_scores(tile, mask, panels, panel, s);
  const std::int64_t blind = blind_rows(tile);
  const bool risen = update_softmax(SoftmaxRows<T>{.rows = rows.tile->count - blind,
                                                   .scores = tile.scores + blind * attend::kKeyTile,
                                                   .maximum = s.maximum + blind,
                                                   .sum = s.sum + blind,
                                                   .factor = s.factor + blind,
                                                   .added = added});
  if (job.dropout.present) drop_weights(tile, blind);
  each_term(job, s.base, [&](const auto& term, T* scratch) {
    if (risen) term_rescale(term, rows, s.factor, scratch);
    term_take(term, tile, scratch);
  });
  const std::int64_t key_size = job.shape.padded_width * attend::kKeyTile;
  const T* const next = panel == 0 ? nullptr : panels.keys_transposed[0] + (panel - 1) * key_size;
  add_values(tile, panels.values + panel * attend::kKeyTile * job.shape.padded_value_width, next, risen ? s.factor : nullptr, s.out);
}

/// Before the first tile of keys: queries packed, nothing seen.
template <class T>
void begin_rows(RowTile<T>& rows, const ForwardScratch<T>& s) {
  const attend::AttentionJob& job = *rows.job;
  pack_content_rows(rows, s.content);
  if (!job.terms.empty()) {
    pack_queries(job.q, rows, T{1}, s.q);
    rows.q = s.q;
  }
  each_term(job, s.base, [&](const auto& term, T* scratch) { term_begin(term, rows, scratch); });
  fill(s.out, rows.tile->count * job.shape.padded_value_width, T{0});
  fill(s.scores, rows.tile->count * attend::kKeyTile, T{0});  // outside of slabs they are read, and must be numbers
  fill(s.other, job.content_count > 1 ? rows.tile->count * attend::kKeyTile : 0, T{0});
  fill(s.maximum, attend::kQueryTile, -std::numeric_limits<T>::infinity());
  fill(s.sum, attend::kQueryTile, T{0});
}

/// A tile of queries against tiles of keys, from the last to the first: `s` then holds out (not divided), maximum and sum of each row.
template <class T>
void forward_rows(RowTile<T>& rows, Columns key_tiles, const KeyPanels<T>& panels, const ForwardScratch<T>& s) {
  const attend::AttentionJob& job = *rows.job;
  begin_rows(rows, s);
  for (std::int64_t k = key_tiles.end - 1; k >= key_tiles.first; --k) {
    const attend::TokenTile& keys = job.key_tiles[static_cast<std::size_t>(k)];
    const TileMask mask = mask_of(job, *rows.tile, keys);
    if (mask == TileMask::none) continue;
    if (skips_the_rest(rows, s.maximum, k)) break;
    ScoreTile<T> tile = score_tile(rows, keys, s.scores);
    tile.partial = tile.regular && (mask == TileMask::part || keys.count < attend::kKeyTile);
    forward_tile(tile, mask, panels, k - panels.first, s);
  }
  each_term(job, s.base, [&](const auto& term, T* scratch) { term_finish(term, rows, s.out, scratch); });
}

/// out / sum to the caller's tensor (zeros where nothing was seen), and the logarithm of the sum. Changes `sum`.
template <class T>
void store_rows(const RowTile<T>& rows, const ForwardScratch<T>& s) {
  const attend::AttentionJob& job = *rows.job;
  const TensorView& lse = job.lse;
  if (job.sinks != nullptr) take_sink(rows, s.maximum, s.sum, s.out);
  if (lse.data != nullptr) {
    const std::int64_t first = rows.batch * lse.strides[0] + rows.tile->first * lse.strides[1] + rows.head * lse.strides[2];
    for (std::int64_t i = 0; i < rows.tile->count; ++i) {
      static_cast<T*>(lse.data)[first + i * lse.strides[1]] =
          s.sum[i] == 0 ? -std::numeric_limits<T>::infinity() : s.maximum[i] + std::log(s.sum[i]);  // NaN stays NaN
    }
  }
  for (std::int64_t i = 0; i < rows.tile->count; ++i) s.sum[i] = s.sum[i] == 0 ? T{0} : T{1} / s.sum[i];
  unpack_rows<T>({s.out, job.shape.padded_value_width, rows.tile->count}, s.sum,
                 stored_rows(job.out, {rows.batch, rows.tile->first, rows.head, rows.tile->count}));
}

/// Query tiles of a sequence in turns from both its ends, so that neighbouring tasks of causal attention make equal work.
inline std::int64_t balanced_tile(const attend::AttentionJob& job, std::int64_t index) {
  const attend::Sequence& sequence = job.sequences[static_cast<std::size_t>(job.query_tiles[static_cast<std::size_t>(index)].sequence)];
  const std::int64_t place = index - sequence.first_query_tile;
  return place % 2 == 0 ? sequence.first_query_tile + place / 2 : sequence.end_query_tile - 1 - place / 2;
}

#if PHASOR_LANES && HWY_TARGET == HWY_AVX3 && PHASOR_AMX
#include "cpu/attention/amx/attention.inl"
#else
constexpr bool amx_serves(const attend::AttentionJob& /*job*/) { return false; }
inline void amx_pack_task(const attend::AttentionJob& /*job*/, std::int64_t /*task*/) {}
inline void amx_forward_rows(const RowTile<float>&, Columns, std::int64_t, const ForwardScratch<float>&) {}
#endif

template <class T>
void forward_task(const attend::AttentionJob& job, std::int64_t task, T* base) {
  const auto query_tiles = static_cast<std::int64_t>(job.query_tiles.size());
  const auto key_tiles = static_cast<std::int64_t>(job.key_tiles.size());
  const std::int64_t head = task / query_tiles;
  const attend::TokenTile& tile = job.query_tiles[static_cast<std::size_t>(balanced_tile(job, task % query_tiles))];
  const attend::Sequence& sequence = job.sequences[static_cast<std::size_t>(tile.sequence)];
  const ForwardScratch<T> s = forward_scratch(forward_layout(job), base);
  if constexpr (std::is_same_v<T, float>) {
    if (amx_serves(job)) {
      const RowTile<T> rows = row_tile<T>(job, tile, head);
      amx_forward_rows(rows, {sequence.first_key_tile, sequence.end_key_tile}, head / job.shape.group() * key_tiles, s);
      return store_rows(rows, s);
    }
  }
  KeyPanels<T> panels = {.keys_transposed = {}, .values = static_cast<const T*>(job.panels.values), .first = 0};
  const std::int64_t skipped = head / job.shape.group() * key_tiles;  // panels of the key heads before
  for (int c = 0; c < job.content_count; ++c) {
    panels.keys_transposed[c] = static_cast<const T*>(job.panels.keys_transposed[c]) + skipped * job.shape.padded_width * attend::kKeyTile;
  }
  panels.values += skipped * job.shape.padded_value_width * attend::kKeyTile;
  RowTile<T> rows = row_tile<T>(job, tile, head);
  forward_rows(rows, {sequence.first_key_tile, sequence.end_key_tile}, panels, s);
  store_rows(rows, s);
}

// ---- Packing ----

/// A tile of keys of one head: keys transposed, a panel a content, and values, those that no query sees as zeros.
template <class T>
void pack_key_tile(const attend::AttentionJob& job, const attend::TokenTile& tile, std::int64_t head, T* const* keys_transposed,
                   T* values) {
  const std::int64_t batch = job.sequences[static_cast<std::size_t>(tile.sequence)].batch;
  const RowsAt at = {batch, tile.first, head, tile.count};
  for (int c = 0; c < job.content_count; ++c) {
    pack_transposed<T>(const_stored_rows(job.contents[c].k, at), {keys_transposed[c], attend::kKeyTile, job.shape.padded_width});
  }
  if (values == nullptr) return;  // weights alone are asked for
  const std::int64_t width = job.shape.padded_value_width;
  pack_rows<T>(const_stored_rows(job.v, at), {values, width, attend::kKeyTile}, T{1});
  clear_unseen(job, tile, width, values);
}

template <class T>
void pack_task(const attend::AttentionJob& job, std::int64_t task) {
  const auto key_tiles = static_cast<std::int64_t>(job.key_tiles.size());
  const attend::TokenTile& tile = job.key_tiles[static_cast<std::size_t>(task % key_tiles)];
  T* keys[attend::kMaxContents] = {};
  for (int c = 0; c < job.content_count; ++c) {
    keys[c] = static_cast<T*>(job.panels.keys_transposed[c]) + task * job.shape.padded_width * attend::kKeyTile;
  }
  T* const values = static_cast<T*>(job.panels.values);
  pack_key_tile(job, tile, task / key_tiles, keys,
                values == nullptr ? nullptr : values + task * job.shape.padded_value_width * attend::kKeyTile);
}

// clang-format off
#include "cpu/attention/decode.inl"
#include "cpu/attention/weights.inl"
// clang-format on

// ---- Strips ----

template <class T>
void forward_strip_of(const attend::AttentionJob& job, std::int64_t strip) {
  if (job.key_splits > 0) {
    const std::int64_t tasks = static_cast<std::int64_t>(job.sequences.size()) * job.shape.key_heads * job.key_splits;
    return each_task<T>(job, tasks, strip, [&](std::int64_t task, T* base) { split_task(job, task, base); });
  }
  const std::int64_t tasks = static_cast<std::int64_t>(job.query_tiles.size()) * job.shape.heads;
  each_task<T>(job, tasks, strip, [&](std::int64_t task, T* base) { forward_task(job, task, base); });
}
template <class T>
void merge_strip_of(const attend::AttentionJob& job, std::int64_t strip) {
  const std::int64_t tasks = static_cast<std::int64_t>(job.query_tiles.size()) * job.shape.heads;
  each_task<T>(job, tasks, strip, [&](std::int64_t task, T* base) { merge_task(job, task, base); });
}

/// Calls `body` with a number of the type that the call computes in. A page's module has float32 alone: its choose.cpp refuses the other.
template <class Body>
void with_arithmetic([[maybe_unused]] const attend::AttentionJob& job, const Body& body) {
#ifndef PHASOR_ONE_TARGET
  if (job.arithmetic == DType::f64) return body(double{});
#endif
  body(float{});
}

void pack_panel(const attend::AttentionJob& job, std::int64_t task) {
  if (amx_serves(job)) return amx_pack_task(job, task);
  with_arithmetic(job, [&](auto type) { pack_task<decltype(type)>(job, task); });
}
void forward_strip(const attend::AttentionJob& job, std::int64_t strip) {
  with_arithmetic(job, [&](auto type) { forward_strip_of<decltype(type)>(job, strip); });
}
void merge_strip(const attend::AttentionJob& job, std::int64_t strip) {
  with_arithmetic(job, [&](auto type) { merge_strip_of<decltype(type)>(job, strip); });
}
void weights_strip(const attend::AttentionJob& job, std::int64_t strip) {
  with_arithmetic(job, [&](auto type) { weights_strip_of<decltype(type)>(job, strip); });
}

constexpr AttentionKernels kKernels = {pack_panel, forward_strip, merge_strip, weights_strip};
