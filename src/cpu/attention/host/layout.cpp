// SPDX-License-Identifier: Apache-2.0
// Sequences cut into tiles, positions as arrays, the span of distances, and who sees whom.
#include <algorithm>
#include <cstring>
#include <limits>

#include "cpu/attention/host/call.hpp"
#include "cpu/attention/host_tables/ranges.hpp"
#include "job/check.hpp"
#include "job/positions/positions.hpp"

namespace phasor::attend {
namespace {

/// Queries or keys of the call.
struct Side {
  const char* name;
  const job::SidePositions* given;
  Integers starts;  // empty: one sequence per batch row
  std::int64_t tokens;
  std::int64_t tile;    // tokens, at most
  std::int64_t span;    // positions, at most
  const KeyMask* mask;  // null: none
};

/// Tokens of one side of one sequence.
struct Tokens {
  std::int64_t sequence;
  std::int64_t batch;
  std::int64_t first;
  std::int64_t end;
  std::int64_t base;  // position of the first where positions are not given
};

/// Whether positions are rising by one, whatever the batch row: then nothing needs to be read.
bool is_counted(const Side& side) { return !side.given->given || side.given->at.data == nullptr; }

std::int64_t position_of(const Side& side, const Tokens& tokens, std::int64_t t) {
  return side.given->given ? job::integer_at(side.given->at, tokens.batch, t) : tokens.base + t - tokens.first;
}

std::int64_t count_of(const Integers& starts, std::int64_t n) { return job::at(starts, n + 1) - job::at(starts, n); }

bool hides_some(const KeyMask& mask, std::int64_t batch, const TokenTile& tile) {
  const std::uint8_t* at = mask.data + batch * mask.strides[0] + tile.first * mask.strides[1];
  for (std::int64_t t = 0; t < tile.count; ++t) {
    if (at[t * mask.strides[1]] == 0) return true;
  }
  return false;
}

Status beyond(const char* where, const Side& side, std::int64_t t, std::int64_t position) {
  return job::error(where, "{} has token {} at position {}, wanted within 2^61 either way", side.name, t, position);
}

/// The tile that begins at token t: as many as it may hold.
Status next_tile(const char* where, const Side& side, const Tokens& tokens, std::int64_t t, TokenTile& tile) {
  const std::int64_t start = position_of(side, tokens, t);
  tile = {.sequence = tokens.sequence, .first = t, .count = 0, .min_position = start, .max_position = start, .consecutive = true};
  std::int64_t most = std::min(side.tile, tokens.end - t);
  if (is_counted(side)) {
    most = std::min(most, side.span + 1);
    if (start < -kFarthest || start > kFarthest - most) return beyond(where, side, t, start);
    tile.count = most;
    tile.max_position = start + most - 1;
    return {};
  }
  for (; tile.count < most; ++tile.count) {
    const std::int64_t position = position_of(side, tokens, t + tile.count);
    if (position < -kFarthest || position > kFarthest) return beyond(where, side, t + tile.count, position);
    const std::int64_t least = std::min(tile.min_position, position);
    const std::int64_t most_far = std::max(tile.max_position, position);
    if (most_far - least > side.span) break;
    tile.min_position = least;
    tile.max_position = most_far;
    tile.consecutive = tile.consecutive && position == start + tile.count;
  }
  return {};
}

Status cut(const char* where, const Side& side, const Tokens& tokens, std::vector<TokenTile>& tiles) {
  for (std::int64_t t = tokens.first; t < tokens.end; t += tiles.back().count) {
    TokenTile& tile = tiles.emplace_back();
    if (Status s = next_tile(where, side, tokens, t, tile); !s) return s;
    if (side.mask != nullptr && side.mask->data != nullptr) tile.masked = hides_some(*side.mask, tokens.batch, tile);
  }
  return {};
}

/// Of one side: they rise from 0 to the last token.
Status check_starts(const char* where, const char* name, const Integers& starts, std::int64_t tokens) {
  std::int64_t before = 0;
  for (std::int64_t n = 0; n < starts.size; ++n) {
    const std::int64_t at = job::at(starts, n);
    if (n == 0 ? at != 0 : at < before)
      return job::error(where, "{}[{}] is {}, wanted {}", name, n, at, n == 0 ? "0" : spec::format("{} or above", before));
    before = at;
  }
  if (before != tokens) return job::error(where, "{} ends at {}, wanted {} tokens", name, before, tokens);
  return {};
}

/// Both sides of one sequence.
struct Pair {
  Tokens queries;
  Tokens keys;
};
Pair tokens_of(const Call& call, const AttentionShape& shape, std::int64_t n) {
  const job::VisibilityJob& see = call.asked->visibility;
  Pair pair = {{n, n, 0, shape.queries, shape.keys - shape.queries}, {n, n, 0, shape.keys, 0}};
  if (!is_varlen(see)) return pair;
  const std::int64_t queries = count_of(see.query_starts, n);
  const std::int64_t keys = count_of(see.key_starts, n);
  const std::int64_t first_query = job::at(see.query_starts, n);
  const std::int64_t first_key = job::at(see.key_starts, n);
  return {{n, 0, first_query, first_query + queries, keys - queries}, {n, 0, first_key, first_key + keys, 0}};
}

/// Over all sequences; both 0 where none has queries and keys.
void find_distances(Prepared& out) {
  DistanceRange range;
  for (const Sequence& sequence : out.sequences) range = joined(range, distances_of(out.job, sequence, key_tiles_of(sequence, 0, 1)));
  if (range.empty()) return;
  out.min_distance = range.low;
  out.max_distance = range.high;
}

/// The arrays of one side: a row, or one per batch row where they differ.
struct PositionArray {
  const std::int64_t* data;
  std::int64_t stride;
};
PositionArray make_positions(const Side& side, std::span<const Tokens> sequences, std::int64_t batch, Arena& arena) {
  const bool shared = is_counted(side) || side.given->at.shape[1] == 1;
  auto* const data = arena.take<std::int64_t>((shared ? 1 : batch) * side.tokens);
  const std::int64_t stride = shared ? 0 : side.tokens;
  if (data == nullptr) return {data, stride};
  for (const Tokens& tokens : sequences) {
    if (shared && tokens.batch > 0) break;
    std::int64_t* const row = data + tokens.batch * stride;
    for (std::int64_t t = tokens.first; t < tokens.end; ++t) row[t] = position_of(side, tokens, t);
  }
  return {data, stride};
}

/// Limits that hide nothing are none, and those that hide all are just that: sums with them cannot overflow.
MaskJob mask_of(const job::VisibilityJob& see, const Prepared& out) {
  MaskJob mask = {.causal = see.causal, .key_mask = see.key_mask.data, .mask_strides = {see.key_mask.strides[0], see.key_mask.strides[1]}};
  if (see.left < out.max_distance) mask.left = std::max(see.left, out.min_distance - 1);
  if (see.right < -out.min_distance) mask.right = std::max(see.right, -out.max_distance - 1);
  return mask;
}

}  // namespace

Status make_layout(const Call& call, std::int64_t span, Arena& arena, Prepared& out) {
  const job::AttentionJob& asked = *call.asked;
  const job::VisibilityJob& see = asked.visibility;
  const AttentionShape& shape = out.job.shape;
  const Side queries = {"q", &asked.query_positions, see.query_starts, shape.queries, kQueryTile, span, nullptr};
  const Side keys = {"k", &asked.key_positions, see.key_starts, shape.keys, kKeyTile, span, &see.key_mask};
  if (is_varlen(see)) {
    if (Status s = check_starts(call.where, "query_starts", see.query_starts, shape.queries); !s) return s;
    if (Status s = check_starts(call.where, "key_starts", see.key_starts, shape.keys); !s) return s;
  }
  const std::int64_t count = is_varlen(see) ? see.query_starts.size - 1 : shape.batch;
  std::vector<Tokens> query_tokens;
  std::vector<Tokens> key_tokens;
  for (std::int64_t n = 0; n < count; ++n) {
    const Pair pair = tokens_of(call, shape, n);
    Sequence& sequence = out.sequences.emplace_back();
    sequence.batch = pair.queries.batch;
    sequence.first_query_tile = static_cast<std::int64_t>(out.query_tiles.size());
    sequence.first_key_tile = static_cast<std::int64_t>(out.key_tiles.size());
    if (Status s = cut(call.where, queries, pair.queries, out.query_tiles); !s) return s;
    if (Status s = cut(call.where, keys, pair.keys, out.key_tiles); !s) return s;
    sequence.end_query_tile = static_cast<std::int64_t>(out.query_tiles.size());
    sequence.end_key_tile = static_cast<std::int64_t>(out.key_tiles.size());
    if (see.prefix.size > 0) sequence.prefix = std::min(job::at(see.prefix, n), kFarthest + 1);  // beyond every position
    query_tokens.push_back(pair.queries);
    key_tokens.push_back(pair.keys);
  }
  const PositionArray query_array = make_positions(queries, query_tokens, shape.batch, arena);
  const PositionArray key_array = make_positions(keys, key_tokens, shape.batch, arena);
  out.job.query_positions = query_array.data;
  out.job.query_position_stride = query_array.stride;
  out.job.key_positions = key_array.data;
  out.job.key_position_stride = key_array.stride;
  out.job.sequences = out.sequences;
  out.job.query_tiles = out.query_tiles;
  out.job.key_tiles = out.key_tiles;
  find_distances(out);
  out.job.mask = mask_of(see, out);
  return {};
}

}  // namespace phasor::attend
