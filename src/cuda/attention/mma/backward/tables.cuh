// SPDX-License-Identifier: Apache-2.0
// Tables of rows by distance in a tile, whose queries and keys follow each other: rows are brought in the order of distances, products with
// all of them are made by tensor cores, and a score finds its own by a shift along its row. On the way back gradients of scores are
// shifted the other way, and products with rows and features give what those get. A table of values is met by the gradient of the outputs
// as one of queries is by those, with gradients of weights in the place of scores, and weights in the place of gradients of scores.
#pragma once

#include "cuda/attention/backward/tables.hpp"
#include "cuda/attention/mma/backward/room.cuh"

namespace phasor::cuda::attention::mma::backward {

/// A side of a tile: which of its numbers is the row, where a score is in the row, the first distance of 16 rows.
template <class K, RowUse kUse>
struct Side {
  static constexpr bool kOfKeys = kUse == RowUse::key;
  using Tile = std::conditional_t<kOfKeys, typename K::ByKey, typename K::ByQuery>;
  static __device__ __forceinline__ int row(int query, int key) { return kOfKeys ? key : query; }
  static __device__ __forceinline__ int column(int query, int key) {
    return kOfKeys ? query - (key & 15) + 15 : (query & 15) - key + kKeys - 1;
  }
  static __device__ __forceinline__ int first_distance(int row_tile) { return kOfKeys ? kKeys - 16 - 16 * row_tile : 16 * row_tile; }
  static __device__ __forceinline__ unsigned char* features(typename K::Room& room) {
    return kOfKeys ? room.k : kUse == RowUse::value ? room.out_gradient : room.q;
  }
  /// Warps that share 16 rows.
  static constexpr int kShare = kOfKeys ? 1 : K::kWarpsOfTile;
};

/// Brings the rows of a tile's distances, and the shift of the features that meet them. Barriers on both sides.
template <class K>
__device__ inline void stage_rows(const TableWork& term, const Step<K>& at) {
  typename K::Room& room = at.room;
  const auto thread = static_cast<int>(threadIdx.x);
  __syncthreads();  // nobody reads the rows before any more
  if (thread == 0) room.repeated = 0;
  if (thread < K::kDistances) {
    const int64_t row = row_by_distance(term.map, at.distance + thread - (kKeys - 1));
    const bool is_there = row >= 0 && row < term.table.shape[1] && thread < K::kDistances - 1;
    room.table_rows[thread] = is_there ? static_cast<std::int32_t>(row) : -1;
  }
  if (term.shift.data != nullptr) bring_shift<K>(term.shift, at.tile.head, room);
  __syncthreads();
  if (thread > 0 && thread < K::kDistances && room.table_rows[thread] >= 0 && room.table_rows[thread] == room.table_rows[thread - 1]) {
    room.repeated = 1;
  }
  const HeadRows rows = head_rows(term.table, at.tile.queries.sequence.batch, at.tile.head, 0, term.table.shape[1]);
  bring_listed_rows<K::kDistances, K::kWidth>(shared_address(room.rows), rows, room.table_rows);
  copies_commit();
  copies_wait<0>();
  __syncthreads();
}

/// room.skewed = products of 16 rows of features with the rows of their distances.
template <class K, RowUse kUse>
__device__ __forceinline__ void multiply_rows_of_table(typename K::Room& room) {
  using S = Side<K, kUse>;
  const int lane = lane_of_warp();
  const int tile = warp_of_block() / S::kShare;
  const std::uint32_t features = shared_address(S::features(room));
  const std::uint32_t rows = shared_address(room.rows);
  std::uint32_t left[K::kWidth / 16][4];
#pragma unroll
  for (int step = 0; step < K::kWidth / 16; ++step) left_operand<K::kWidth>(left[step], features, 16 * tile, step);
  auto* const to = reinterpret_cast<float*>(room.skewed) + (16 * tile + lane / 4) * S::Tile::kPitch + 2 * (lane & 3);
#pragma unroll
  for (int n = 0; n < S::Tile::kColumns / 16; ++n) {
    if (n % S::kShare != warp_of_block() % S::kShare) continue;
    const int first = S::first_distance(tile) + 16 * n + (lane & 7) + ((lane >> 4) << 3);
    float d[2][4] = {};
#pragma unroll
    for (int step = 0; step < K::kWidth / 16; ++step) {
      std::uint32_t right[4];
      load_matrices(right, rows + piece_offset<K::kWidth>(first, 2 * step + (lane >> 3 & 1)));
      add_product<typename K::Element>(d[0], left[step], right[0], right[1]);
      add_product<typename K::Element>(d[1], left[step], right[2], right[3]);
    }
#pragma unroll
    for (int x = 0; x < 8; ++x) to[8 * (x >> 1 & 1) * S::Tile::kPitch + 16 * n + 8 * (x >> 2) + (x & 1)] = d[x >> 2][x & 3];
  }
}

/// s += what a table adds. Its rows are there.
template <class K, RowUse kUse, int kColumns>
__device__ __forceinline__ void add_table_scores(const TableWork& term, typename K::Room& room, float (&s)[kColumns][4]) {
  using S = Side<K, kUse>;
  const bool shifted = term.shift.data != nullptr;
  multiply_rows_of_table<K, kUse>(room);
  if (shifted) multiply_shift<K>(room.rows, K::kDistances, room, room.shifts_of_rows);
  __syncthreads();
  const auto scale = static_cast<float>(term.scale);
  const auto* const from = reinterpret_cast<const float*>(room.skewed);
  if (shifted) {
    each_of_lane(s, [&](float& x, int query, int key) {
      const float y = from[S::row(query, key) * S::Tile::kPitch + S::column(query, key)] + room.shifts_of_rows[query - key + kKeys - 1];
      x = fmaf(scale, y, x);
    });
  } else {
    each_of_lane(
        s, [&](float& x, int query, int key) { x = fmaf(scale, from[S::row(query, key) * S::Tile::kPitch + S::column(query, key)], x); });
  }
}

// ---- Back ----

/// room.skewed = gradients of scores (pairs of queries), zeros where a row has no such distance. Barriers on both sides.
template <class K, RowUse kUse, int kColumns>
__device__ __forceinline__ void skew_gradients(typename K::Room& room, const std::uint32_t (&ds)[kColumns][2]) {
  using S = Side<K, kUse>;
  constexpr int kPitch = S::Tile::kNarrowPitch;
  auto* const to = reinterpret_cast<std::uint16_t*>(room.skewed);
  __syncthreads();  // nobody reads what is there any more
  const int own_key = warp_of_block() * 16 + lane_of_warp() / 4;
  const int own_query = 2 * (lane_of_warp() & 3);
#pragma unroll
  for (int n = 0; n < kColumns; ++n) {
#pragma unroll
    for (int x = 0; x < 4; ++x) {
      const int query = own_query + 8 * n + (x & 1);
      const int key = own_key + 8 * (x >> 1);
      to[S::row(query, key) * kPitch + S::column(query, key)] = static_cast<std::uint16_t>(ds[n][x >> 1] >> 16 * (x & 1));
    }
  }
  for (int n = static_cast<int>(threadIdx.x); n < S::Tile::kRows * 16; n += kBlockThreads) {
    const int row = n / 16;
    const int before = S::kOfKeys ? 15 - row % 16 : row % 16;  // columns without a score, at the beginning of the row
    to[row * kPitch + (n % 16 < before ? n % 16 : S::Tile::kOthers + n % 16)] = 0;
  }
  __syncthreads();
}

/// d += gradients of 16 rows x the table's rows, channels from 16 `first` on.
template <class K, RowUse kUse, int kColumns>
__device__ __forceinline__ void add_feature_gradients(float (&d)[kColumns][4], const typename K::Room& room, int tile, int first) {
  using S = Side<K, kUse>;
#pragma unroll
  for (int n = 0; n < S::Tile::kColumns / 16; ++n) {
    std::uint32_t left[4];
    left_from(left, room.skewed, 2 * S::Tile::kNarrowPitch, 16 * tile, 16 * n);
    add_rows<typename K::Element, K::kWidth>(d, left, room.rows, S::first_distance(tile) + 16 * n, first);
  }
}

/// body(gradients of scores of 16 distances by 16 rows, the first of those rows), for all rows that have such distances.
template <class K, RowUse kUse, class Body>
__device__ __forceinline__ void each_row_tile(const typename K::Room& room, int distances, const Body& body) {
  using S = Side<K, kUse>;
#pragma unroll
  for (int tile = 0; tile < S::Tile::kRows / 16; ++tile) {
    const int column = 16 * distances - S::first_distance(tile);
    if (column < 0 || column >= S::Tile::kColumns) continue;
    std::uint32_t left[4];
    left_transposed(left, room.skewed, 2 * S::Tile::kNarrowPitch, column, 16 * tile);
    body(left, 16 * tile);
  }
}
/// sums of the gradients of scores by distance: rows g and g + 8 of a lane, in every column.
template <class K>
__device__ __forceinline__ void add_row_sums(float (&sums)[4], const std::uint32_t (&left)[4]) {
  const std::uint32_t ones = pack<typename K::Element>(1, 1);
  add_product<typename K::Element>(sums, left, ones, ones);
}
/// Gradients of 16 distances' rows by features, and sums of the gradients of their scores.
template <class K, RowUse kUse, int kColumns>
__device__ __forceinline__ void row_gradients(float (&d)[kColumns][4], float (&sums)[4], typename K::Room& room, int distances, int first) {
  each_row_tile<K, kUse>(room, distances, [&](const std::uint32_t(&left)[4], int row) {
    add_rows<typename K::Element, K::kWidth>(d, left, Side<K, kUse>::features(room), row, first);
    add_row_sums<K>(sums, left);
  });
}

/// What a shift of the features adds to the gradient of a row, and the term's scale.
template <class K, int kColumns>
__device__ __forceinline__ void end_row_gradients(const TableWork& term, const typename K::Room& room, const float (&sums)[4], int channel,
                                                  float (&d)[kColumns][4]) {
  const auto scale = static_cast<float>(term.scale);
  const bool shifted = term.shift.data != nullptr;
#pragma unroll
  for (int n = 0; n < kColumns; ++n) {
#pragma unroll
    for (int x = 0; x < 4; ++x) {
      const float shift = shifted ? room.shift[channel + 8 * n + 2 * (lane_of_warp() & 3) + (x & 1)] : 0;
      d[n][x] = scale * fmaf(sums[x & 2], shift, d[n][x]);
    }
  }
}

/// Where the rows of a head begin in a block's slot; null: not wanted.
template <class K>
struct TableSlot {
  float* rows;
  int64_t pitch;
  int width;
};
template <class K>
__device__ inline TableSlot<K> table_slot(const TermWork& term, const Step<K>& at) {
  const Extents& shape = term.table.table.shape;
  float* const slot = slot_at<float>(at.work, at.place.index, term.sums.slot);
  if (slot == nullptr) return {nullptr, 0, 0};
  return {slot + slot_row(at.work, shape, at.tile.queries.sequence.batch, 0, at.tile.head), slot_heads(at.work, shape) * shape[3],
          static_cast<int>(shape[3])};
}

/// Every distance has a row of its own: sums go from registers to the slot.
template <class K, RowUse kUse>
__device__ __forceinline__ void add_own_rows(const TermWork& term, const TableSlot<K>& slot, typename K::Room& room) {
  constexpr int kWide = 64;
  constexpr int kTiles = K::kDistances / 16;
  for (int unit = warp_of_block(); unit < kTiles * (K::kWidth / kWide); unit += kWarps) {
    const int tile = unit % kTiles;
    const int channel = unit / kTiles * kWide;
    float d[kWide / 8][4] = {};
    float sums[4] = {};
    row_gradients<K, kUse>(d, sums, room, tile, channel / 16);
    end_row_gradients<K>(term.table, room, sums, channel, d);
    const int own = channel + 2 * (lane_of_warp() & 3);
    float2 old[2][kWide / 8];
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const std::int32_t row = room.table_rows[16 * tile + lane_of_warp() / 4 + 8 * h];
#pragma unroll
      for (int n = 0; n < kWide / 8; ++n) {
        if (row >= 0 && own + 8 * n < slot.width) old[h][n] = *reinterpret_cast<const float2*>(slot.rows + row * slot.pitch + own + 8 * n);
      }
    }
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const std::int32_t row = room.table_rows[16 * tile + lane_of_warp() / 4 + 8 * h];
#pragma unroll
      for (int n = 0; n < kWide / 8; ++n) {
        if (row < 0 || own + 8 * n >= slot.width) continue;
        *reinterpret_cast<float2*>(slot.rows + row * slot.pitch + own + 8 * n) = {old[h][n].x + d[n][2 * h], old[h][n].y + d[n][2 * h + 1]};
      }
    }
  }
}

/// A thread's part of a tile's sums by distance, which lie in room.rows, half of the channels at a time: a channel and some of the
/// distances.
template <class K>
struct OwnDistances {
  static constexpr int kHalf = K::kWidth / 2;
  static constexpr int kShare = K::kDistances * kHalf / kBlockThreads;
  static constexpr int kTogether = 8;
  static_assert(kShare % kTogether == 0);
  int channel;
  int begin;
  int end;
};
template <class K>
__device__ __forceinline__ OwnDistances<K> own_distances() {
  using Own = OwnDistances<K>;
  const auto thread = static_cast<int>(threadIdx.x);
  const int begin = thread / Own::kHalf * Own::kShare;
  return {thread % Own::kHalf, begin, begin + Own::kShare};
}

/// Sums of the thread's distances that have one row, which lie side by side, come where the first of them was.
template <class K>
__device__ __forceinline__ void add_up_own_rows(const OwnDistances<K>& own, const std::int32_t* rows, float* sums) {
  using Own = OwnDistances<K>;
  int head = own.begin;
  float sum = 0;
  for (int first = own.begin; first < own.end; first += Own::kTogether) {
    float x[Own::kTogether];
#pragma unroll
    for (int n = 0; n < Own::kTogether; ++n) x[n] = sums[(first + n) * Own::kHalf];
#pragma unroll
    for (int n = 0; n < Own::kTogether; ++n) {
      const int distance = first + n;
      if (distance > own.begin && rows[distance] != rows[distance - 1]) {
        head = distance;
        sum = 0;
      }
      sum += x[n];
      sums[head * Own::kHalf] = sum;
    }
  }
}

/// Sums by distance to the slot, channels from `channel` on. Whoever has the first distance of a row takes what the threads behind have
/// added up of it. Alone it would add up most of a tile wherever most distances have one row, which is nearly everywhere with clips and
/// buckets.
template <class K>
__device__ inline void add_gathered_rows(const TableSlot<K>& slot, typename K::Room& room, int channel) {
  using Own = OwnDistances<K>;
  const Own own = own_distances<K>();
  const std::int32_t* const rows = room.table_rows;
  auto* const sums = reinterpret_cast<float*>(room.rows) + own.channel;
  add_up_own_rows<K>(own, rows, sums);
  __syncthreads();
  if (channel + own.channel >= slot.width) return;
  for (int first = own.begin; first < own.end; first += Own::kTogether) {
    float* to[Own::kTogether];
    float sum[Own::kTogether];
#pragma unroll
    for (int n = 0; n < Own::kTogether; ++n) {
      const int distance = first + n;
      const std::int32_t row = rows[distance];
      to[n] = nullptr;
      if (row < 0 || (distance > 0 && rows[distance - 1] == row)) continue;
      to[n] = slot.rows + row * slot.pitch + channel + own.channel;
      sum[n] = sums[distance * Own::kHalf];
      for (int next = own.end; next < K::kDistances && rows[next] == row; next += Own::kShare) sum[n] += sums[next * Own::kHalf];
    }
#pragma unroll
    for (int n = 0; n < Own::kTogether; ++n) {
      if (to[n] != nullptr) sum[n] += *to[n];
    }
#pragma unroll
    for (int n = 0; n < Own::kTogether; ++n) {
      if (to[n] != nullptr) *to[n] = sum[n];
    }
  }
}
/// Distances share rows: sums of each go by way of shared memory, where the table's rows were, half of the channels at a time.
template <class K, RowUse kUse>
__device__ __forceinline__ void add_shared_rows(const TermWork& term, const TableSlot<K>& slot, typename K::Room& room) {
  constexpr int kHalf = K::kWidth / 2;
  auto* const to = reinterpret_cast<float*>(room.rows);
  for (int channel = 0; channel < K::kWidth; channel += kHalf) {
    __syncthreads();  // nobody reads the table's rows, or sums before, any more
    for (int tile = warp_of_block(); tile < K::kDistances / 16; tile += kWarps) {
      float d[kHalf / 8][4] = {};
      float sums[4] = {};
      row_gradients<K, kUse>(d, sums, room, tile, channel / 16);
      end_row_gradients<K>(term.table, room, sums, channel, d);
      float* const own = to + (16 * tile + lane_of_warp() / 4) * kHalf + 2 * (lane_of_warp() & 3);
#pragma unroll
      for (int n = 0; n < kHalf / 8; ++n) {
#pragma unroll
        for (int h = 0; h < 2; ++h) *reinterpret_cast<float2*>(own + 8 * h * kHalf + 8 * n) = {d[n][2 * h], d[n][2 * h + 1]};
      }
    }
    __syncthreads();
    add_gathered_rows<K>(slot, room, channel);
  }
}

/// Adds to the table's gradient. room.skewed and the rows are there; whether the rows still are, afterwards.
template <class K, RowUse kUse>
__device__ __forceinline__ bool add_table_gradient(const TermWork& term, const Step<K>& at) {
  const TableSlot<K> slot = table_slot<K>(term, at);
  if (slot.rows == nullptr) return true;
  if (at.room.repeated == 0) {
    add_own_rows<K, kUse>(term, slot, at.room);
    return true;
  }
  add_shared_rows<K, kUse>(term, slot, at.room);
  return false;
}

}  // namespace phasor::cuda::attention::mma::backward
