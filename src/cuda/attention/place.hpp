// SPDX-License-Identifier: Apache-2.0
// Where things are: sequences, tiles of their tokens, positions; who sees whom; which row of a table a query and a key read.
#pragma once

#include <limits>

#include "cuda/attention/work.hpp"
#include "cuda/position.hpp"
#include "cuda/starts.hpp"
#include "plan/attention.hpp"
#include "plan/bias/table_row.hpp"

namespace phasor::cuda::attention {

PHASOR_HD inline int64_t at_list(const Integers& list, int64_t n) {
  return list.bytes == 4 ? static_cast<const std::int32_t*>(list.data)[n] : static_cast<const int64_t*>(list.data)[n];
}

template <class T>
PHASOR_HD inline T infinity() {
  return std::numeric_limits<T>::infinity();
}
PHASOR_HD inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
PHASOR_HD inline int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }
PHASOR_HD inline int64_t tiles_of(int64_t tokens, int64_t tile = kTile) { return (tokens + tile - 1) / tile; }

/// A sequence: a batch row, or a part of the only one.
struct Sequence {
  int64_t index;
  int64_t batch;
  int64_t first_query;  // tokens of the batch row
  int64_t queries;
  int64_t first_key;
  int64_t keys;
  int64_t prefix;  // INT64_MIN: none
};
PHASOR_HD inline Sequence sequence_at(const AttentionWork& work, int64_t index) {
  Sequence s = {index, index, 0, work.shape.queries, 0, work.shape.keys, INT64_MIN};
  if (is_varlen(work)) {
    const int64_t q = at_list(work.see.query_starts, index);
    const int64_t k = at_list(work.see.key_starts, index);
    s = {index, 0, q, at_list(work.see.query_starts, index + 1) - q, k, at_list(work.see.key_starts, index + 1) - k, INT64_MIN};
  }
  if (work.see.prefix.size > 0) s.prefix = at_list(work.see.prefix, index);
  return s;
}

PHASOR_HD inline int64_t key_head_of(const AttentionWork& work, int64_t head) { return head / (work.shape.heads / work.shape.key_heads); }

/// How many tiles of `size` queries there may be: lengths of sequences are known on the device alone.
PHASOR_HD inline int64_t most_query_tiles(const AttentionWork& work, int64_t size = kTile) {
  return is_varlen(work) ? work.shape.queries / size + work.sequences : work.sequences * tiles_of(work.shape.queries, size);
}

/// A tile of queries; count 0: there is none of that number. Tiles of sequence s are numbered from starts[s] / size + s on, so that nobody
/// counts those of the sequences before.
struct QueryTile {
  Sequence sequence;
  int64_t first;  // token of the batch row
  int64_t count;
};
PHASOR_HD inline QueryTile query_tile_at(const AttentionWork& work, int64_t number, int64_t size = kTile) {
  if (!is_varlen(work)) {
    const int64_t tiles = tiles_of(work.shape.queries, size);
    const int64_t first = number % tiles * size;
    return {sequence_at(work, number / tiles), first, least(size, work.shape.queries - first)};
  }
  const auto first_tile = [&](int64_t s) { return at_list(work.see.query_starts, s) / size + s; };
  const int64_t s = last_begun(work.sequences, number, first_tile);
  const Sequence sequence = sequence_at(work, s);
  const int64_t first = (number - first_tile(s)) * size;
  if (first >= sequence.queries) return {{}, 0, 0};
  return {sequence, sequence.first_query + first, least(size, sequence.queries - first)};
}

// ---- Positions ----

PHASOR_HD inline int64_t query_position(const AttentionWork& work, const Sequence& s, int64_t token) {
  if (work.has_positions[0]) return whole_position(work.positions[0], 0, s.batch, token);
  return token - s.first_query + s.keys - s.queries;
}
PHASOR_HD inline int64_t key_position(const AttentionWork& work, const Sequence& s, int64_t token) {
  return work.has_positions[1] ? whole_position(work.positions[1], 0, s.batch, token) : token - s.first_key;
}

/// But for the key mask.
PHASOR_HD inline bool sees_distance(const job::VisibilityJob& see, int64_t prefix, int64_t query, int64_t key) {
  const int64_t r = query - key;
  return (!see.causal || r >= 0 || key < prefix) && r <= see.left && -r <= see.right;
}
PHASOR_HD inline bool is_masked(const AttentionWork& work, const Sequence& s, int64_t token) {
  const KeyMask& mask = work.see.key_mask;
  return mask.data != nullptr && mask.data[s.batch * mask.strides[0] + token * mask.strides[1]] == 0;
}

/// Keys that some query of a tile may see, where positions are as tokens lie: a range of tokens of the batch row.
struct KeySpan {
  int64_t first;
  int64_t end;
};
PHASOR_HD inline KeySpan seen_keys(const AttentionWork& work, const QueryTile& tile) {
  const Sequence& s = tile.sequence;
  KeySpan span = {s.first_key, s.first_key + s.keys};
  if (work.has_positions[0] || work.has_positions[1]) return span;
  const int64_t low = query_position(work, s, tile.first);
  const int64_t high = low + tile.count - 1;
  if (work.see.causal) span.end = least(span.end, s.first_key + most(high + 1, s.prefix));
  if (work.see.left < INT64_MAX / 2) span.first = most(span.first, s.first_key + low - work.see.left);
  if (work.see.right < INT64_MAX / 2) span.end = least(span.end, s.first_key + high + work.see.right + 1);
  span.end = most(span.end, span.first);
  return span;
}

/// A query and a key: tokens of the batch row, and positions.
struct Pair {
  int64_t batch;
  int64_t query;
  int64_t key;
  int64_t query_position;
  int64_t key_position;
};
PHASOR_HD inline bool sees(const AttentionWork& work, const Pair& pair, const Sequence& s) {
  return sees_distance(work.see, s.prefix, pair.query_position, pair.key_position) && !is_masked(work, s, pair.key);
}

// ---- Contents ----

PHASOR_HD inline int content_at(const AttentionWork& work, int64_t query, int64_t key) {
  if (work.rule == ContentRule::one) return 0;
  if (work.rule == ContentRule::window) return query - key < work.rule_size ? 0 : 1;
  const int64_t chunks = query / work.rule_size - key / work.rule_size;
  return static_cast<int>(plan::clamped(chunks, 0, 2));
}

// ---- Rows of tables ----

PHASOR_HD inline int64_t row_by_distance(const job::RowMap& map, int64_t distance) {
  if (map.has_buckets) return plan::row_of(map.buckets, distance);
  if (map.zero_outside && (-distance < -map.left || -distance > map.right)) return -1;
  return plan::clamped(-distance, -map.left, map.right) + map.left;
}

/// Of a table of offsets in a window; with a class token, which stands at 0, three rows behind.
PHASOR_HD inline int64_t grid_row(const TableWork& term, int64_t query, int64_t key) {
  const int64_t width = term.query_grid.width;
  const int64_t height = term.query_grid.height;
  const int64_t rows = (2 * height - 1) * (2 * width - 1);
  if (term.class_token) {
    if (query == 0 || key == 0) return rows + (query != 0 ? 1 : key != 0 ? 0 : 2);
    --query;
    --key;
  }
  return (query / width - key / width + height - 1) * (2 * width - 1) + query % width - key % width + width - 1;
}

/// -1: none.
PHASOR_HD inline int64_t row_at(const TableWork& term, const Pair& pair) {
  switch (term.kind) {
    case RowKind::distance:
      return row_by_distance(term.map, pair.query_position - pair.key_position);
    case RowKind::segment: {
      const int64_t of_query = whole_position(term.segments[0], 0, pair.batch, pair.query);
      return of_query == whole_position(term.segments[1], 0, pair.batch, pair.key) ? 0 : 1;
    }
    case RowKind::axis_y:
      return plan::grid_axis_row(pair.query_position / term.query_grid.width, pair.key_position / term.key_grid.width,
                                 term.query_grid.height, term.key_grid.height);
    case RowKind::axis_x:
      return plan::grid_axis_row(pair.query_position % term.query_grid.width, pair.key_position % term.key_grid.width,
                                 term.query_grid.width, term.key_grid.width);
    case RowKind::grid:
      break;
  }
  return grid_row(term, pair.query_position, pair.key_position);
}

}  // namespace phasor::cuda::attention
