// SPDX-License-Identifier: Apache-2.0
// Attention with CoPE backward by mma.sync. A block stays with a tile of queries, whose sums are in registers, while tiles of keys pass
// twice: from the last to the first for what the forward had counted at each, then from the first to the last, since a gate is counted by
// every key that is not after it. Gradients of keys and values are added to rows that are the block's own, those of the table to its slot,
// as in the general backward: nobody else adds there.
#pragma once

#include "cuda/attention/backward/place.hpp"
#include "cuda/attention/mma/cope/tile.cuh"
#include "cuda/attention/mma/saved.cuh"

namespace phasor::cuda::attention::mma::cope {

static_assert(Room<64>::kKeys == kTile && Room<128>::kKeys == kTile);  // places of counts at each tile are laid out for those

// ---- What comes ----

/// A block's queries, with zeros for those that see no key; and no count, no gradient so far.
template <class K>
__device__ inline void begin_queries(const Strip<K>& at) {
  typename K::Room& room = at.room;
  __syncthreads();  // nobody reads those before any more
  load_saved<kQueries>(at.work, at.queries, at.head, room);
  for (int i = static_cast<int>(threadIdx.x); i < kQueries; i += kBlockThreads) {
    room.lower[i] = static_cast<int>(at.term.table.shape[1]) - 1;
    room.at_lower[i] = room.above[i] = 0;
  }
  auto* const gradients = reinterpret_cast<std::uint32_t*>(at.gradients);
  for (int n = static_cast<int>(threadIdx.x); n < kQueries * at.gradient_pitch / 2; n += kBlockThreads) gradients[n] = 0;
  __syncthreads();
  bring_query_rows<typename K::Element, kQueries, K::kWidth>(at.work, at.queries, at.head, room);
}

/// Keys, and values if they are wanted; zeros for padding, which may be anything. Barriers on both sides.
template <class K>
__device__ inline void bring_keys(const Strip<K>& at, const ScoreTile& tile, bool with_values) {
  const Sequence& sequence = tile.queries.sequence;
  const auto is_there = [&](int row) { return !is_masked(at.work, sequence, tile.first_key + row); };
  __syncthreads();  // nobody reads those before any more
  bring_rows<K::kKeys, K::kWidth>(shared_address(at.room.k), head_rows(at.work.k, sequence.batch, tile.key_head, tile.first_key, tile.keys),
                                  is_there);
  if (with_values) {
    bring_rows<K::kKeys, K::kWidth>(shared_address(at.room.v),
                                    head_rows(at.work.v, sequence.batch, tile.key_head, tile.first_key, tile.keys), is_there);
  }
  copies_commit();
  copies_wait<0>();
  __syncthreads();
}

// ---- The forward's walk ----

/// What a lane's query h has counted before its first key: one that is not there, or sees no key, needs no count, and all of them are
/// past.
template <class K>
__device__ __forceinline__ float first_count(const Strip<K>& at, int h) {
  return at.room.lse[16 * warp_of_block() + lane_of_warp() / 4 + 8 * h] != INFINITY ? 0 : at.counting.last;
}

/// Keeps what every query has counted at each tile of keys, from the last tile to the first, until all have counted to the last row of the
/// table. Returns the first tile in the sequence that needs gates.
template <class K>
__device__ inline int64_t count_tiles(const Strip<K>& at, int64_t first, int64_t end) {
  typename K::Room& room = at.room;
  float carry[2] = {first_count(at, 0), first_count(at, 1)};
  for (int64_t number = end - 1; number > first; --number) {
    const ScoreTile tile = at.tile_at(number);
    bring_keys<K>(at, tile, false);
    float s[1][K::kColumns][4] = {};
    make_products<K>(at, tile, s);
    float gates[K::kColumns][4];
    make_gates(s[0], at.scores, at.counting, at.number_of(tile), gates);
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      add_up_row<From::last_key>(gates, h, carry[h]);
      if ((lane_of_warp() & 3) == 0) carry_at(at, number - 1)[8 * h] = carry[h];
    }
    const bool past = are_past(carry, at.counting);
    if (lane_of_warp() == 0) room.open[warp_of_block()] = past ? 0 : 1;
    __syncthreads();
    int open = 0;
#pragma unroll
    for (int warp = 0; warp < kWarps; ++warp) open += room.open[warp];
    if (open == 0) return number;
  }
  return first;
}

// ---- What goes ----

/// Where the gradients of a tile of keys are added up, in rows of this block alone; the factor multiplies all that is added.
struct KeyRows {
  SumRows<float> to;
  int keys;
  int width;
  float factor;
};
/// A warp has 16 keys and half of their channels: += factor (scores by queries)^T x rows of queries.
template <class K>
__device__ PHASOR_OUT_OF_LINE void add_key_rows(KeyRows of, const unsigned char* scores, const unsigned char* rows) {
  const SumRows<float>& to = of.to;
  constexpr int kColumns = K::kWidth / 16;
  if (to.data == nullptr) return;
  const int first_key = warp_of_block() % 2 * 16;
  const int half = warp_of_block() / 2;
  const int channel = half * K::kWidth / 2 + 2 * (lane_of_warp() & 3);
  float2* at[2];
  float2 old[2][kColumns];
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int key = first_key + lane_of_warp() / 4 + 8 * h;
    at[h] = key < of.keys ? reinterpret_cast<float2*>(to.data + int64_t{key} * to.row + channel) : nullptr;
#pragma unroll
    for (int n = 0; n < kColumns; ++n) {
      if (at[h] != nullptr && channel + 8 * n < of.width) old[h][n] = at[h][4 * n];
    }
  }
  float d[kColumns][4] = {};
#pragma unroll
  for (int step = 0; step < kQueries / 16; ++step) {
    std::uint32_t left[4];
    left_transposed(left, scores, K::Room::kNarrowPitch, first_key, 16 * step);
    add_rows<typename K::Element, K::kWidth>(d, left, rows, 16 * step, half * K::kWidth / 32);
  }
#pragma unroll
  for (int h = 0; h < 2; ++h) {
#pragma unroll
    for (int n = 0; n < kColumns; ++n) {
      if (at[h] == nullptr || channel + 8 * n >= of.width) continue;
      at[h][4 * n] = {fmaf(of.factor, d[n][2 * h], old[h][n].x), fmaf(of.factor, d[n][2 * h + 1], old[h][n].y)};
    }
  }
}

/// The table's rows, 16 of a warp at a time, += scale (gradients of products)^T x queries.
template <class K>
__device__ inline void add_table_rows(const Strip<K>& at, const TermWork& term) {
  constexpr int kWide = 64;
  const Extents& shape = at.term.table.shape;
  float* const slot = slot_at<float>(at.work, at.place.index, term.sums.slot);
  if (slot == nullptr) return;
  float* const rows = slot + slot_row(at.work, shape, 0, 0, at.head);
  const int64_t pitch = slot_heads(at.work, shape) * shape[3];
  const int tiles = columns_of(shape[1]) / 16;
  for (int unit = warp_of_block(); unit < tiles * (K::kWidth / kWide); unit += kWarps) {
    const int first = unit % tiles * 16;
    const int channel = unit / tiles * kWide;
    float d[kWide / 8][4] = {};
#pragma unroll
    for (int step = 0; step < kQueries / 16; ++step) {
      std::uint32_t left[4];
      left_transposed(left, at.gradients, 2 * at.gradient_pitch, first, 16 * step);
      add_rows<typename K::Element, K::kWidth>(d, left, at.room.q, 16 * step, channel / 16);
    }
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int row = first + lane_of_warp() / 4 + 8 * h;
#pragma unroll
      for (int n = 0; n < kWide / 8; ++n) {
        const int c = channel + 8 * n + 2 * (lane_of_warp() & 3);
        if (row >= shape[1] || c >= shape[3]) continue;
        auto* const to = reinterpret_cast<float2*>(rows + row * pitch + c);
        const float2 old = *to;
        *to = {fmaf(at.counting.scale, d[n][2 * h], old.x), fmaf(at.counting.scale, d[n][2 * h + 1], old.y)};
      }
    }
  }
}

/// What a warp's 16 queries get of keys, in d, and of the table's rows.
template <class K>
__device__ inline void store_queries(const Strip<K>& at, const float (&d)[K::kWidth / 8][4]) {
  const SumRows<float> to = query_sums<float>(at.work, at.work.backward.q[0], at.tile_at(0), at.work.shape.width);
  if (to.data == nullptr) return;
  float of_rows[K::kWidth / 8][4] = {};
  for (int first = 0; first < at.term.table.shape[1]; first += K::kKeys) {
    stage_table<K::kKeys, K::kWidth>(at.term.table, at.head, first, shared_address(at.room.k));
#pragma unroll
    for (int step = 0; step < K::kKeys / 16; ++step) {
      if (first + 16 * step >= columns_of(at.term.table.shape[1])) continue;
      std::uint32_t left[4];
      left_from(left, at.gradients, 2 * at.gradient_pitch, 16 * warp_of_block(), first + 16 * step);
      add_rows<typename K::Element, K::kWidth>(of_rows, left, at.room.k, 16 * step, 0);
    }
  }
  const int channel = 2 * (lane_of_warp() & 3);
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int query = 16 * warp_of_block() + lane_of_warp() / 4 + 8 * h;
#pragma unroll
    for (int n = 0; n < K::kWidth / 8; ++n) {
      if (query >= at.queries.count || channel + 8 * n >= at.work.shape.width) continue;
      float2 x;
      x.x = fmaf(at.counting.scale, of_rows[n][2 * h], at.factors.all * d[n][2 * h]);
      x.y = fmaf(at.counting.scale, of_rows[n][2 * h + 1], at.factors.all * d[n][2 * h + 1]);
      *reinterpret_cast<float2*>(to.data + int64_t{query} * to.row + channel + 8 * n) = x;
    }
  }
}

// ---- A tile of queries ----

template <class K>
__device__ __forceinline__ void backward_keys(const Strip<K>& at, int64_t number, bool counted, float (&carry)[2],
                                              float (&q)[1][K::kWidth / 8][4]) {
  typename K::Room& room = at.room;
  const ScoreTile tile = at.tile_at(number);
  bring_keys<K>(at, tile, true);
  float p[1][K::kColumns][4] = {};
  float ds[1][K::kColumns][4] = {};
  if (counted) {
    counted_gradients<K>(at, number, carry, p, ds);
  } else {
    past_gradients<K>(at, tile, p, ds);
  }
  __syncthreads();  // nobody reads counts any more
  store_narrow<K>(room.scores, ds[0]);
  store_narrow<K>(room.scores + K::Room::kNarrow, p[0]);
  add_values<typename K::Element, K::kWidth, K::kKeys, 1>(q, ds, shared_address(room.k));
  __syncthreads();  // the gradients and weights of all queries are there
  const auto keys = static_cast<int>(tile.keys);
  const auto width = static_cast<int>(at.work.shape.width);
  const auto value_width = static_cast<int>(at.work.shape.value_width);
  const BackwardWork& sums = at.work.backward;
  add_key_rows<K>({key_sums<float>(at.work, sums.k[0], at.place, tile, width), keys, width, at.factors.all}, room.scores, room.q);
  add_key_rows<K>({key_sums<float>(at.work, sums.v, at.place, tile, value_width), keys, value_width, 1}, room.scores + K::Room::kNarrow,
                  room.out_gradient);
}

template <class K>
__device__ inline void backward_queries(const Strip<K>& at) {
  const KeySpan seen = seen_keys(at.work, at.queries);
  if (seen.first >= seen.end) return;
  const int64_t begin = at.queries.sequence.first_key;
  const int64_t first = (seen.first - begin) / K::kKeys;
  const int64_t end = tiles_of(seen.end - begin, K::kKeys);
  begin_queries<K>(at);
  multiply_table<typename K::Element, K::kWidth, K::kKeys>(at.term.table, at.head, shared_address(at.room.q), shared_address(at.room.k),
                                                           at.products);
#pragma unroll
  for (int h = 0; h < 2; ++h) {  // no key is after the last tile
    if ((lane_of_warp() & 3) == 0) carry_at(at, end - 1)[8 * h] = first_count(at, h);
  }
  const int64_t counted = count_tiles<K>(at, first, end);
  float carry[2] = {};
  float q[1][K::kWidth / 8][4] = {};
  for (int64_t number = first; number < end; ++number) backward_keys<K>(at, number, number >= counted, carry, q);
  end_gradients<K>(at);
  __syncthreads();  // all gradients of products are there
  add_table_rows<K>(at, at.work.terms[0]);
  store_queries<K>(at, q[0]);
}

template <class K>
__device__ __forceinline__ void backward_block(const AttentionWork& work, int64_t index, unsigned char* memory) {
  const BackwardPlace place = backward_place(work, index);
  each_query_tile(work, place, kQueries, [&](const QueryTile& queries, int64_t head) {
    __syncthreads();  // nobody reads the tile before any more
    if (threadIdx.x == 0) {
      auto& room = *reinterpret_cast<typename K::Room*>(memory);
      room.place = place;
      room.queries = queries;
    }
    __syncthreads();
    backward_queries<K>(Strip<K>(work, head, memory));
  });
}

}  // namespace phasor::cuda::attention::mma::cope
