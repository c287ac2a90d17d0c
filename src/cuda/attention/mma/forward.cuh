// SPDX-License-Identifier: Apache-2.0
// Attention forward by mma.sync: four warps have the queries of a block, 16 or 32 rows each, and walk tiles of keys from the last to the
// first. A tile of keys and one of values are in shared memory at a time; each is asked for while the other is worked with.
#pragma once

#include "cuda/attention/mma/cope/counts.cuh"
#include "cuda/attention/mma/kernels.hpp"
#include "cuda/attention/mma/registers.cuh"
#include "cuda/attention/mma/rows.cuh"
#include "cuda/attention/mma/tables/values.cuh"

namespace phasor::cuda::attention::mma {

template <class Element_, int kWidth_, ScoresIn kScores_>
struct Kind {
  using Element = Element_;
  static constexpr int kWidth = kWidth_;
  static constexpr int kKeys = cut_for(kWidth, kScores_).keys;
  static constexpr int kQueries = cut_for(kWidth, kScores_).queries;
  static constexpr int kRowTiles = kQueries / (kBlockThreads / 32 * 16);  // of 16 rows, of a warp
  static constexpr bool kShared = is_shared(kScores_);
  static constexpr bool kValued = kScores_ == ScoresIn::shared_with_values;
  static constexpr bool kChanged = kScores_ == ScoresIn::changed_in_registers;
  static constexpr bool kCounted = kScores_ == ScoresIn::counted;
  static constexpr bool kTabled = kScores_ == ScoresIn::tabled;
  static constexpr int kBlocks = kWidth == 64 && (kScores_ == ScoresIn::registers || kCounted) ? 3 : 1;  // of a multiprocessor, at least
  using Room = TermRoom<kQueries, kKeys>;
  using Even = EvenRoom<kQueries>;
  using Tables = TableRoom<kTabled ? kWidth : 16, kQueries, kKeys>;
  static constexpr int kQueryBytes = kQueries * kWidth * 2;
  static constexpr int kKeyBytes = kKeys * kWidth * 2;
  static constexpr int kRowBytes = kQueryBytes + 2 * kKeyBytes;
  static_assert(kRowBytes == row_bytes(cut_for(kWidth, kScores_)));
  static constexpr std::size_t kTableBytes = sizeof(Tables::rows) / kMostTables;
  static constexpr std::size_t kSharedBytes =
      kRowBytes + (kShared ? sizeof(Room) : 0) + (kValued ? sizeof(Even) : 0) + (kTabled ? sizeof(Tables) : 0);
  static_assert(kSharedBytes <= 96 * 1024);  // what every device since sm_80 has
};

// ---- Sums of weighted values to the device's memory ----

/// Outputs as lanes store them, two channels side by side.
struct OutputView {
  const TensorView& out;
  int width;
  bool wide;   // float32
  bool pairs;  // two channels are one store
};
__device__ inline OutputView output_view(const AttentionWork& work) {
  const TensorView& out = work.outputs.out;
  const bool wide = out.dtype == DType::f32;
  const bool pairs = out.strides[3] == 1 && out.strides[0] % 2 == 0 && out.strides[1] % 2 == 0 && out.strides[2] % 2 == 0 &&
                     reinterpret_cast<std::uintptr_t>(out.data) % (wide ? 8 : 4) == 0;
  return {out, static_cast<int>(work.shape.value_width), wide, pairs};
}

/// body(channel, x, y) for a lane's channels of one of its two rows, numbers times the factor.
template <int kColumns, class Body>
__device__ __forceinline__ void each_pair(const float (&o)[kColumns][4], int half, float factor, int width, const Body& body) {
#pragma unroll
  for (int n = 0; n < kColumns; ++n) {
    const int c = 8 * n + 2 * (lane_of_warp() & 3);
    if (c < width) body(c, o[n][2 * half] * factor, o[n][2 * half + 1] * factor);
  }
}

/// One of a lane's two rows: from element `at` of the outputs on.
template <class Element, int kColumns>
__device__ __forceinline__ void store_outputs(const OutputView& to, int64_t at, const float (&o)[kColumns][4], int half, float factor) {
  const int64_t step = to.out.strides[3];
  if (to.wide) {
    auto* const row = static_cast<float*>(to.out.data) + at;
    each_pair(o, half, factor, to.width, [&](int c, float x, float y) {
      if (to.pairs) {
        *reinterpret_cast<float2*>(row + c) = {x, y};
      } else {
        row[c * step] = x;
        row[(c + 1) * step] = y;
      }
    });
    return;
  }
  auto* const row = static_cast<std::uint16_t*>(to.out.data) + at;
  each_pair(o, half, factor, to.width, [&](int c, float x, float y) {
    const std::uint32_t two = pack<Element>(x, y);
    if (to.pairs) {
      *reinterpret_cast<std::uint32_t*>(row + c) = two;
    } else {
      row[c * step] = static_cast<std::uint16_t>(two);
      row[(c + 1) * step] = static_cast<std::uint16_t>(two >> 16);
    }
  });
}

/// The same for the merge of parts, which divides by the weights.
template <int kColumns>
__device__ __forceinline__ void store_part(const AttentionWork& work, int64_t row, const float (&o)[kColumns][4], int half, float factor) {
  const auto width = static_cast<int>(work.shape.value_width);
  float* const to = static_cast<float*>(work.partial.out) + row * width;
  each_pair(o, half, factor, width, [&](int c, float x, float y) { to[c] = x, to[c + 1] = y; });
}

/// A row of a warp is at an end: stored, or kept for the merge of splits.
template <class K>
__device__ inline void store_rows(const AttentionWork& work, const QueryTile& tile, const BlockPlace& place, float scale,
                                  const Rows<K::kRowTiles>& rows, const float (&o)[K::kRowTiles][K::kWidth / 8][4]) {
  const int lane = static_cast<int>(threadIdx.x) & 31;
  const int first = static_cast<int>(threadIdx.x) / 32 * 16 * K::kRowTiles + lane / 4;
  const OutputView out = output_view(work);
  const TensorView& lse = work.outputs.lse;
  const int64_t batch = tile.sequence.batch;
  const float kept = work.dropout.present ? static_cast<float>(work.dropout.factor) : 1.0F;
#pragma unroll
  for (int r = 0; r < 2 * K::kRowTiles; ++r) {
    const int i = first + 8 * r;
    if (i >= tile.count) continue;
    const float greatest = rows.greatest[r] * scale;
    if (work.partial.splits > 1) {
      const int64_t of_call = work.shape.batch * work.shape.queries * work.shape.heads;
      const int64_t row = place.split * of_call + row_number(work, batch, tile.first + i, place.head);
      store_part(work, row, o[r / 2], r & 1, kept);
      if ((lane & 3) != 0) continue;
      static_cast<float*>(work.partial.max)[row] = greatest;
      static_cast<float*>(work.partial.sum)[row] = rows.sum[r];
      continue;
    }
    const RowEnd<float> end = end_of_row(work, place.head, greatest, rows.sum[r]);
    store_outputs<typename K::Element>(out, place_in(out.out, batch, tile.first + i, place.head), o[r / 2], r & 1, end.factor * kept);
    if (lse.data == nullptr || (lane & 3) != 0) continue;
    job::store_element(lse.data, lse.dtype, place_in(lse, batch, tile.first + i, place.head), end.lse);
  }
}

// ---- A block ----

/// Whether a table of rows is staged where values go.
__device__ inline bool has_tables(const AttentionWork& work) {
  for (int t = 0; t < work.term_count; ++t) {
    const TermWork& term = work.terms[t];
    if (term.use == TermUse::table && term.table.use != RowUse::number && term.table.use != RowUse::value) return true;
  }
  return false;
}

/// CoPE's, where they are: how queries count, and what they have counted.
struct Counts {
  cope::Counting by;
  float carry[2];
};

/// What a block does while it walks tiles of keys.
template <class K>
struct Walk {
  const AttentionWork& work;
  QueryTile queries;
  BlockPlace place;
  int64_t key_head;
  int64_t end;  // of keys, tokens of the batch row
  unsigned char* memory;

  __device__ unsigned char* q() const { return memory; }
  __device__ unsigned char* k() const { return memory + K::kQueryBytes; }
  __device__ unsigned char* v() const { return memory + K::kQueryBytes + K::kKeyBytes; }
  __device__ int count_at(int64_t key) const { return static_cast<int>(least(K::kKeys, end - key)); }
  __device__ ScoreTile tile_at(int64_t key) const { return {queries, place.head, key_head, key, count_at(key)}; }

  __device__ __forceinline__ void bring_queries() const {
    bring_rows<K::kQueries, K::kWidth>(shared_address(q()),
                                       head_rows(work.contents[0].q, queries.sequence.batch, place.head, queries.first, queries.count));
  }
  __device__ __forceinline__ void bring_keys(int64_t key) const {
    bring_rows<K::kKeys, K::kWidth>(shared_address(k()),
                                    head_rows(work.contents[0].k, queries.sequence.batch, key_head, key, count_at(key)));
    copies_commit();
  }
  __device__ __forceinline__ void bring_first(int64_t key) const {
    bring_queries();
    bring_keys(key);
  }
  /// Products with CoPE's table; rows are staged where values come later.
  __device__ __forceinline__ Counts begin_counts(const SharedRows& at) const {
    auto* const products = reinterpret_cast<float*>(memory + K::kRowBytes);
    const CopeTerm& term = work.terms[0].cope;
    cope::multiply_table<typename K::Element, K::kWidth, K::kKeys>(term.table, place.head, at.q, at.values, products);
    return {cope::counting_of(term, products), {0, 0}};
  }
  /// With tables of scores.
  __device__ __forceinline__ TableStep<K> table_step(const SharedRows& at, int64_t key) const {
    auto& room = *reinterpret_cast<typename K::Tables*>(memory + K::kRowBytes);
    if constexpr (!K::kTabled) return {work, {}, at, room, 0, 0, 0, 0, true};
    const int64_t distance = query_position(work, queries.sequence, queries.first) - (key - queries.sequence.first_key);
    return {work, tables_of(work), at, room, queries.sequence.batch, place.head, distance, 0, true};
  }
  /// Zeros for padding: its values may be anything.
  __device__ __forceinline__ void bring_values(int64_t key) const {
    const HeadRows rows = head_rows(work.v, queries.sequence.batch, key_head, key, count_at(key));
    if (work.see.key_mask.data == nullptr) {
      bring_rows<K::kKeys, K::kWidth>(shared_address(v()), rows);
    } else {
      bring_rows<K::kKeys, K::kWidth>(shared_address(v()), rows, [&](int row) { return !is_masked(work, queries.sequence, key + row); });
    }
    copies_commit();
  }
};

/// How products become scores, and weights outputs, of each kind of kernel, with what it keeps from tile to tile.
template <class K>
struct Scoring {
  const Walk<K>& walk;
  const SharedRows& at;
  typename K::Room& room;
  typename K::Even& even_room;
  bool staged;        // rows of tables come where values go, before those
  WarpScores scores;  // in registers
  Counts counts;
  TableStep<K> tables;
  FarWeights far;

  /// Queries and keys of the first tile have been asked for.
  __device__ __forceinline__ void begin() {
    if constexpr (K::kShared) begin_room(walk.work, walk.queries, walk.place.head, room);
    if constexpr (K::kValued) begin_even(even_room);
    if constexpr (K::kCounted) counts = walk.begin_counts(at);
    if constexpr (K::kTabled) {
      bring_features<K>(tables, walk.queries.first, walk.queries.count);
      begin_tables<K>(tables);
    }
  }
  /// Asks for the tile's values as soon as their place is free.
  __device__ __forceinline__ void make_scores(int64_t key, float (&s)[K::kRowTiles][K::kKeys / 8][4]) {
    const auto number = static_cast<int>(key - walk.queries.sequence.first_key);
    if constexpr (K::kShared) {
      const ScoreTile tile = walk.tile_at(key);
      const bool even = K::kValued && is_even(walk.work, tile, K::kKeys);
      if (!staged || even) walk.bring_values(key);
      multiply(s);
      if (even) {
        make_even_scores<typename K::Element, K::kWidth>(walk.work, tile, walk.q(), even_room);
        add_even_scores(even_room, static_cast<float>(walk.work.scale), s[0]);
        hide_padding(walk.work, tile, s[0]);
      } else {
        make_shared_scores<typename K::Element, K::kWidth>(walk.work, tile, at, room, s[0]);
        if (staged) walk.bring_values(key);
      }
    } else {
      walk.bring_values(key);
      multiply(s);
      if constexpr (K::kCounted) {
        cope::make_counted_scores(s, scores, counts.by, number, counts.carry);
      } else {
        if constexpr (K::kTabled) add_tables<K>(tables, s[0]);
        finish_scores<K::kChanged || K::kTabled>(s, scores, number);
      }
    }
  }
  __device__ __forceinline__ void multiply(float (&s)[K::kRowTiles][K::kKeys / 8][4]) const {
    multiply_rows<typename K::Element, K::kWidth, K::kKeys, K::kRowTiles>(s, at.q, 16 * K::kRowTiles * warp_of_block(), at.k);
  }
  /// Values are there. `more`: another tile comes.
  __device__ __forceinline__ void add_weighted_values(int64_t key, bool more, const float (&p)[K::kRowTiles][K::kKeys / 8][4],
                                                      const Rows<K::kRowTiles>& rows, float (&o)[K::kRowTiles][K::kWidth / 8][4]) {
    if constexpr (K::kTabled) {
      end_tabled_tile<K>(tables, more, p, rows, far, o);
    } else {
      add_values<typename K::Element, K::kWidth, K::kKeys, K::kRowTiles>(o, p, at.values);
    }
    if constexpr (K::kValued) add_value_tables<K>({walk.work, walk.tile_at(key), at, room}, p[0], o[0]);
  }
  __device__ __forceinline__ void end(float (&o)[K::kRowTiles][K::kWidth / 8][4]) {
    if constexpr (K::kTabled) end_far<K>(tables, far, o[0]);
  }
};
/// The first tile of keys begins at `key`.
template <class K>
__device__ __forceinline__ Scoring<K> scoring_of(const Walk<K>& walk, const SharedRows& at, int64_t key) {
  auto& room = *reinterpret_cast<typename K::Room*>(walk.memory + K::kRowBytes);
  auto& even_room = *reinterpret_cast<typename K::Even*>(walk.memory + K::kRowBytes + sizeof(typename K::Room));
  WarpScores scores = K::kShared ? WarpScores{} : warp_scores(walk.work, walk.queries, walk.place.head, 16 * K::kRowTiles);
  if (K::kTabled) scores.scale = 1;  // they have theirs already when a bias comes
  return {walk, at, room, even_room, K::kShared && has_tables(walk.work), scores, {}, walk.table_step(at, key), {}};
}

template <class K>
__device__ __forceinline__ void forward_block(const AttentionWork& work, int64_t index, unsigned char* memory) {
  const BlockPlace place = block_place(work, K::kQueries, index);
  const QueryTile queries = query_tile_at(work, place.tile, K::kQueries);
  if (queries.count == 0) return;
  const KeySpan seen = seen_keys(work, queries);
  const KeySpan part = keys_of_split(work, queries.sequence, place.split, K::kKeys);
  const int64_t begin = queries.sequence.first_key;
  const int64_t first = most(seen.first, part.first);
  const int64_t end = least(seen.end, part.end);
  const Walk<K> walk = {work, queries, place, key_head_of(work, place.head), part.end, memory};
  const SharedRows at = {shared_address(walk.q()), shared_address(walk.k()), shared_address(walk.v()), walk.v(), walk.k()};
  int64_t key = begin + (tiles_of(end - begin, K::kKeys) - 1) * K::kKeys;
  Scoring<K> scoring = scoring_of<K>(walk, at, key);
  const bool scaled = K::kShared || K::kChanged || K::kCounted || K::kTabled;
  const float factor = scaled ? kLog2E : scoring.scores.scale * kLog2E;  // of scores that are scaled already, or not yet
  Rows<K::kRowTiles> rows;
  float o[K::kRowTiles][K::kWidth / 8][4] = {};
  if (first < end) {
    walk.bring_first(key);
    scoring.begin();
  }
  for (; first < end && key + K::kKeys > first && key >= begin; key -= K::kKeys) {
    copies_wait<0>();
    __syncthreads();  // keys are there; nobody reads the values before any more
    float s[K::kRowTiles][K::kKeys / 8][4] = {};
    scoring.make_scores(key, s);
    update_softmax(s, o, rows, factor);
    if constexpr (K::kShared) {
      if (work.dropout.present) drop_own_weights(scoring.room, s[0]);
    }
    copies_wait<0>();
    __syncthreads();  // values are there; nobody reads the keys any more
    const bool more = key - K::kKeys >= begin && key > first;
    if (more) walk.bring_keys(key - K::kKeys);
    scoring.add_weighted_values(key, more, s, rows, o);
  }
  scoring.end(o);
  add_up_lanes(rows);
  store_rows<K>(work, queries, place, factor / kLog2E, rows, o);
}

}  // namespace phasor::cuda::attention::mma
