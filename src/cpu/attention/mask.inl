// SPDX-License-Identifier: Apache-2.0
// Who sees whom: of two tiles at a glance, of one score, and as the mask of a tile. Included once in each target's namespace.

enum class TileMask : std::uint8_t { none, part, all };

/// Limits of windows from here on limit nothing: distances are below 2^62.
constexpr std::int64_t kNoLimit = std::int64_t{1} << 62;

inline TileMask mask_of(const attend::AttentionJob& job, const attend::TokenTile& queries, const attend::TokenTile& keys) {
  const attend::MaskJob& mask = job.mask;
  const std::int64_t prefix = job.sequences[static_cast<std::size_t>(queries.sequence)].prefix;
  const std::int64_t nearest = queries.min_position - keys.max_position;
  const std::int64_t farthest = queries.max_position - keys.min_position;
  if (mask.causal && farthest < 0 && keys.min_position >= prefix) return TileMask::none;
  if (nearest > mask.left || -farthest > mask.right) return TileMask::none;
  const bool behind = !mask.causal || nearest >= 0 || keys.max_position < prefix;
  return behind && farthest <= mask.left && -nearest <= mask.right && !keys.masked ? TileMask::all : TileMask::part;
}

/// Scores after the soft cap. Those of -infinity stay so: by that a dense bias hides a key, and the cap must not bring it back.
template <class T>
HWY_INLINE Reg<T> capped_unless_hidden(Reg<T> score, Reg<T> capped) {
  return if_then_else(less(score, set(std::numeric_limits<T>::lowest())), score, capped);
}

/// One score, but for the key mask.
inline bool visible_by_distance(const attend::MaskJob& mask, std::int64_t prefix, std::int64_t query_position, std::int64_t key_position) {
  const std::int64_t r = query_position - key_position;
  return (!mask.causal || r >= 0 || key_position < prefix) && r <= mask.left && -r <= mask.right;
}
inline bool hidden_by_mask(const attend::MaskJob& mask, std::int64_t batch, std::int64_t key) {
  return mask.key_mask != nullptr && mask.key_mask[batch * mask.mask_strides[0] + key * mask.mask_strides[1]] == 0;
}
/// Row and column within the tile.
template <class T>
bool visible_at(const ScoreTile<T>& tile, std::int64_t row, std::int64_t column) {
  const attend::AttentionJob& job = *tile.rows->job;
  const std::int64_t prefix = job.sequences[static_cast<std::size_t>(tile.keys->sequence)].prefix;
  return visible_by_distance(job.mask, prefix, tile.rows->positions[row], tile.key_positions[column]) &&
         !hidden_by_mask(job.mask, tile.rows->batch, tile.keys->first + column);
}

/// Columns first to end - 1.
struct Columns {
  std::int64_t first;
  std::int64_t end;
};
/// What a row of a regular tile sees: `reach` is the column at distance 0.
inline Columns columns_seen(const attend::AttentionJob& job, const attend::TokenTile& keys, std::int64_t reach) {
  const attend::MaskJob& mask = job.mask;
  Columns seen = {0, keys.count};
  if (mask.causal) {
    const std::int64_t prefix = job.sequences[static_cast<std::size_t>(keys.sequence)].prefix;
    const std::int64_t exempt = prefix > keys.min_position ? prefix - keys.min_position : 0;
    seen.end = std::min(seen.end, std::max(reach + 1, exempt));
  }
  if (mask.left < kNoLimit) seen.first = std::max(seen.first, reach - mask.left);
  if (mask.right < kNoLimit) seen.end = std::min(seen.end, reach + mask.right + 1);
  seen.end = std::max<std::int64_t>(seen.end, 0);
  seen.first = std::min(seen.first, seen.end);
  return seen;
}

/// Rows of a tile and the columns that some of them see, in sixteens.
struct Slab {
  std::int64_t row;
  std::int64_t rows;
  std::int64_t first;
  std::int64_t columns;
};
/// The slab that begins at a row: the whole tile, or some rows of a partial one. What lies outside of slabs holds
/// older numbers or -infinity; the mask overwrites them.
template <class T>
Slab slab_at(const ScoreTile<T>& tile, std::int64_t row) {
  constexpr std::int64_t kRows = 16;  // blind_rows counts in the same: a slab must not hold rows that the softmax leaves out
  const std::int64_t count = tile.rows->tile->count;
  if (!tile.partial) return {row, count - row, 0, attend::kKeyTile};
  const std::int64_t end = std::min(row + kRows, count);
  const std::int64_t first_column = columns_seen(*tile.rows->job, *tile.keys, tile.distance + row).first / 16 * 16;
  const std::int64_t end_column = (columns_seen(*tile.rows->job, *tile.keys, tile.distance + end - 1).end + 15) / 16 * 16;
  return {row, end - row, first_column, std::max<std::int64_t>(end_column - first_column, 0)};
}

template <class T>
void fill(T* out, std::int64_t count, T value) {
  T* const end = out + count;
  for (; end - out >= lanes<T>; out += lanes<T>) store(set(value), out);
  for (; out < end; ++out) *out = value;
}

/// Writes `hidden` to what is not seen, and to padding: -infinity to scores, 0 to gradients.
template <class T>
void mask_tile(const ScoreTile<T>& tile, T hidden) {
  const RowTile<T>& rows = *tile.rows;
  for (std::int64_t i = 0; i < rows.tile->count; ++i) {
    T* const row = tile.scores + i * attend::kKeyTile;
    if (tile.regular) {
      const Columns seen = columns_seen(*rows.job, *tile.keys, tile.distance + i);
      fill(row, seen.first, hidden);
      fill(row + seen.end, attend::kKeyTile - seen.end, hidden);
      if (!tile.keys->masked) continue;
      for (std::int64_t j = seen.first; j < seen.end; ++j) {
        if (hidden_by_mask(rows.job->mask, rows.batch, tile.keys->first + j)) row[j] = hidden;
      }
    } else {
      for (std::int64_t j = 0; j < tile.keys->count; ++j) {
        if (!visible_at(tile, i, j)) row[j] = hidden;
      }
      fill(row + tile.keys->count, attend::kKeyTile - tile.keys->count, hidden);
    }
  }
}

/// The tile of scores of a tile of queries and one of keys.
template <class T>
ScoreTile<T> score_tile(const RowTile<T>& rows, const attend::TokenTile& keys, T* scores) {
  const attend::TokenTile& queries = *rows.tile;
  const std::int64_t* positions = rows.job->key_positions + rows.batch * rows.job->key_position_stride + keys.first;
  return {.rows = &rows,
          .keys = &keys,
          .key_positions = positions,
          .scores = scores,
          .regular = queries.consecutive && keys.consecutive,
          .distance = queries.min_position - keys.min_position,
          .min_distance = queries.min_position - keys.max_position,
          .max_distance = queries.max_position - keys.min_position};
}

// ---- Keys that no query sees: what is in their memory, NaN perhaps, must not meet a weight of 0 ----

/// Whether every query of the sequence is too far from this key, or before it.
inline bool out_of_reach(const attend::AttentionJob& job, const attend::Sequence& sequence, std::int64_t key_position) {
  std::int64_t first = INT64_MAX;
  std::int64_t last = INT64_MIN;
  for (std::int64_t t = sequence.first_query_tile; t < sequence.end_query_tile; ++t) {
    first = std::min(first, job.query_tiles[static_cast<std::size_t>(t)].min_position);
    last = std::max(last, job.query_tiles[static_cast<std::size_t>(t)].max_position);
  }
  if (first > last) return true;
  if (job.mask.causal && key_position > last && key_position >= sequence.prefix) return true;
  return first - key_position > job.mask.left || key_position - last > job.mask.right;
}

/// Whether the mask or distance hides a key of the tile from every query.
inline bool has_unseen(const attend::AttentionJob& job, const attend::TokenTile& tile) {
  const attend::Sequence& sequence = job.sequences[static_cast<std::size_t>(tile.sequence)];
  return tile.masked || out_of_reach(job, sequence, tile.min_position) || out_of_reach(job, sequence, tile.max_position);
}
/// Of a key of such a tile.
inline bool is_unseen(const attend::AttentionJob& job, const attend::TokenTile& tile, std::int64_t column) {
  const attend::Sequence& sequence = job.sequences[static_cast<std::size_t>(tile.sequence)];
  const std::int64_t key = tile.first + column;
  return hidden_by_mask(job.mask, sequence.batch, key) ||
         out_of_reach(job, sequence, job.key_positions[sequence.batch * job.key_position_stride + key]);
}
/// Their rows become zeros.
template <class T>
void clear_unseen(const attend::AttentionJob& job, const attend::TokenTile& tile, std::int64_t width, T* rows) {
  const bool some = has_unseen(job, tile);
  for (std::int64_t j = 0; some && j < tile.count; ++j) {
    if (is_unseen(job, tile, j)) fill(rows + j * width, width, T{0});
  }
}
