// SPDX-License-Identifier: Apache-2.0
// Forward attention in bfloat16 on Intel's matrix unit: blocks of 32 query rows, the loops and terms of cpu/attention/forward.inl around
// the parts of cpu/attention/amx/processor.hpp. Included once, in the namespace of the target that machines with AMX have.

/// Whether the matrix unit does a job: bfloat16 as given or as the call rotated it, no term that wants probabilities, no dropout.
inline bool amx_serves(const attend::AttentionJob& job) {
  if (!amx::kCompiled || job.q.dtype != DType::bf16 || job.key_splits > 0 || job.panels.values == nullptr) return false;
  if (job.content_count != 1 || job.contents[0].q.dtype != DType::bf16 || job.contents[0].k.dtype != DType::bf16) return false;
  if (job.content_shift != nullptr || job.decay.log_zeta != nullptr || job.certified_skip || job.dropout.present || !(job.scale > 0))
    return false;
  if (job.shape.width % amx::kDepthStep != 0 || job.shape.value_width % amx::kDepthStep != 0) return false;
  if (std::any_of(job.terms.begin(), job.terms.end(), wants_all_rows)) return false;
  return amx::available();
}

inline amx::Rows amx_rows(const ConstTensorView& x, const RowsAt& at) {
  const ConstStoredRows rows = const_stored_rows(x, at);
  return {static_cast<const BFloat16*>(rows.data), rows.stride, rows.rows, rows.width};
}

/// Panels are as far apart as those of float32, so that half of each is free.
inline BFloat16* amx_panel(void* panels, std::int64_t panel, std::int64_t width) {
  return reinterpret_cast<BFloat16*>(static_cast<float*>(panels) + panel * width * attend::kKeyTile);
}

/// The values of a tile of which no query sees some: a copy in which those are zeros.
inline amx::Rows amx_seen_values(const attend::AttentionJob& job, const attend::TokenTile& tile, const RowsAt& at, BFloat16* copy) {
  const amx::Rows from = amx_rows(job.v, at);
  for (std::int64_t j = 0; j < from.count; ++j) {
    BFloat16* const row = copy + j * from.channels;
    if (is_unseen(job, tile, j)) {
      std::fill_n(row, from.channels, BFloat16{});
    } else {
      std::copy_n(from.data + j * from.stride, from.channels, row);
    }
  }
  return {copy, from.channels, from.count, from.channels};
}

inline void amx_pack_task(const attend::AttentionJob& job, std::int64_t task) {
  const auto key_tiles = static_cast<std::int64_t>(job.key_tiles.size());
  const attend::TokenTile& tile = job.key_tiles[static_cast<std::size_t>(task % key_tiles)];
  const RowsAt at = {job.sequences[static_cast<std::size_t>(tile.sequence)].batch, tile.first, task / key_tiles, tile.count};
  const std::int64_t width = job.shape.value_width;
  BFloat16* const values = amx_panel(job.panels.values, task, width);
  const amx::Session session;
  amx::pack_keys(amx_rows(job.contents[0].k, at), amx_panel(job.panels.keys_transposed[0], task, job.shape.width));
  amx::pack_values(has_unseen(job, tile) ? amx_seen_values(job, tile, at, values + width * attend::kKeyTile) : amx_rows(job.v, at), values);
}

/// Some rows of a tile of queries on their way through the keys.
struct AmxBlock {
  attend::TokenTile tile;
  RowTile<float> rows;
  BFloat16* q;
  amx::Output out;
  amx::BlockState state;
  bool begun;
};

inline void amx_begin(const RowTile<float>& rows, std::int64_t first, const ForwardScratch<float>& s, AmxBlock& block) {
  const attend::AttentionShape& shape = rows.job->shape;
  block.tile = *rows.tile;
  block.tile.first += first;
  block.tile.count = std::min(amx::kBlockRows, rows.tile->count - first);
  block.rows = rows;
  block.rows.tile = &block.tile;
  block.rows.positions += first;
  const auto [least, most] = std::minmax_element(block.rows.positions, block.rows.positions + block.tile.count);
  block.tile.min_position = *least;
  block.tile.max_position = *most;
  block.q = reinterpret_cast<BFloat16*>(s.content.q[0] + first * shape.width);
  block.out = {s.out + first * shape.value_width, shape.value_width, shape.value_width};
  block.begun = false;
  amx::pack_queries(amx_rows(rows.job->contents[0].q, {rows.batch, block.tile.first, rows.head, block.tile.count}), block.q);
  amx::reset(block.state);
}

/// Scale, terms, soft cap and mask; gives what the softmax is still to multiply by.
inline float amx_finish_scores(const ScoreTile<float>& tile, TileMask mask, const ForwardScratch<float>& s) {
  const attend::AttentionJob& job = *tile.rows->job;
  auto scale = static_cast<float>(job.scale);
  if (!job.terms.empty() || job.softcap > 0) {
    for (std::int64_t at = 0; at < amx::kBlockRows * attend::kKeyTile; at += lanes<float>) {
      store(mul(load(tile.scores + at), set(scale)), tile.scores + at);
    }
    scale = 1;
  }
  each_term(job, s.base, [&](const auto& term, float* scratch) {
    term_add(term, tile, scratch);
    amx::keep_awake();
  });
  if (job.softcap > 0) cap_scores(*tile.rows, tile.scores);
  if (mask == TileMask::part || tile.keys->count < attend::kKeyTile) mask_tile(tile, -std::numeric_limits<float>::infinity());
  return scale;
}

/// A block against tiles of keys, from the last to the first. `panel`: of key tile 0 for this head.
inline void amx_walk(AmxBlock& block, Columns key_tiles, std::int64_t panel, const ForwardScratch<float>& s) {
  constexpr amx::Parts kParts = amx::Parts::two;  // one would be a quarter faster, and its errors those of bfloat16
  const attend::AttentionJob& job = *block.rows.job;
  for (std::int64_t k = key_tiles.end - 1; k >= key_tiles.first; --k) {
    const attend::TokenTile& keys = job.key_tiles[static_cast<std::size_t>(k)];
    const TileMask mask = mask_of(job, block.tile, keys);
    if (mask == TileMask::none) continue;
    amx::scores(block.q, amx_panel(job.panels.keys_transposed[0], panel + k, job.shape.width), job.shape.width, s.scores);
    const float scale = amx_finish_scores(score_tile(block.rows, keys, s.scores), mask, s);
    const std::uint32_t rescaled = amx::softmax(s.scores, scale, kParts, block.state);
    if (rescaled != 0 && block.begun) amx::rescale(block.out, block.state, rescaled);
    amx::add_values(s.scores, kParts, amx_panel(job.panels.values, panel + k, job.shape.value_width), block.out,
                    block.begun ? amx::Fill::add : amx::Fill::overwrite);
    block.begun = true;
  }
}

/// Maximum and sum of each row, as the other loops leave them.
inline void amx_end(AmxBlock& block, std::int64_t first, const ForwardScratch<float>& s) {
  constexpr float kLn2 = 0x1.62e430p-1F;
  if (!block.begun) fill(block.out.data, amx::kBlockRows * block.out.stride, 0.0F);
  amx::row_sums(block.state, s.sum + first);
  for (std::int64_t r = 0; r < amx::kBlockRows; ++r) s.maximum[first + r] = kLn2 * block.state.shift[r];
}

/// A tile of queries of one head. Its blocks share panels of keys while those are near; terms want one block after the other.
inline void amx_forward_rows(const RowTile<float>& rows, Columns key_tiles, std::int64_t panel, const ForwardScratch<float>& s) {
  static_assert(attend::kQueryTile % amx::kBlockRows == 0 && attend::kKeyTile == amx::kTileKeys);
  constexpr std::int64_t kNearTiles = 8;
  const attend::AttentionJob& job = *rows.job;
  AmxBlock blocks[attend::kQueryTile / amx::kBlockRows];
  const amx::Session session;
  const std::int64_t count = (rows.tile->count + amx::kBlockRows - 1) / amx::kBlockRows;
  for (std::int64_t b = 0; b < count; ++b) amx_begin(rows, b * amx::kBlockRows, s, blocks[b]);
  for (std::int64_t b = 0; b < count && !job.terms.empty(); ++b) {
    pack_queries(job.q, blocks[b].rows, 1.0F, s.q);
    blocks[b].rows.q = s.q;
    each_term(job, s.base, [&](const auto& term, float* scratch) { term_begin(term, blocks[b].rows, scratch); });
    amx_walk(blocks[b], key_tiles, panel, s);
  }
  for (std::int64_t end = key_tiles.end; end > key_tiles.first && job.terms.empty(); end -= kNearTiles) {
    for (std::int64_t b = 0; b < count; ++b) amx_walk(blocks[b], {std::max(key_tiles.first, end - kNearTiles), end}, panel, s);
  }
  for (std::int64_t b = 0; b < count; ++b) amx_end(blocks[b], b * amx::kBlockRows, s);
}
