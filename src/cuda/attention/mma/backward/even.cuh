// SPDX-License-Identifier: Apache-2.0
// Tiles whose distances all have one row of a table: with a clip most of them. A product with the row is one number for each query, and
// what goes back to features and row are sums over the tile's keys. Numbers are where skewed ones are otherwise.
#pragma once

#include "cuda/attention/mma/backward/tables.cuh"

namespace phasor::cuda::attention::mma::backward {

/// The row; -1: none; kSeveralRows: a distance must be asked for its own.
template <class K>
__device__ inline int64_t even_row(const TableWork& table, const Step<K>& at) {
  return row_of_all(table, at.distance - (at.tile.keys - 1), at.distance + at.tile.queries.count - 1);
}

template <class Element>
__device__ __forceinline__ float add_eight_products(const uint4& a, const uint4& b, float sum) {
  const std::uint32_t left[4] = {a.x, a.y, a.z, a.w};
  const std::uint32_t right[4] = {b.x, b.y, b.z, b.w};
#pragma unroll
  for (int x = 0; x < 8; ++x) {
    const auto of_left = widened<Element>(static_cast<std::uint16_t>(left[x / 2] >> 16 * (x & 1)));
    sum = fmaf(of_left, widened<Element>(static_cast<std::uint16_t>(right[x / 2] >> 16 * (x & 1))), sum);
  }
  return sum;
}

/// The product of each query's features with the row: some threads have a query. Barriers on both sides.
template <class K, RowUse kUse>
__device__ PHASOR_OUT_OF_LINE const float* multiply_even_row(const TableWork& table, const Step<K>& at, int64_t row) {
  constexpr int kShare = kBlockThreads / K::kQueries;
  const auto thread = static_cast<int>(threadIdx.x);
  const int query = thread / kShare;
  const HeadRows rows = head_rows(table.table, at.tile.queries.sequence.batch, at.tile.head, row, 1);
  const unsigned char* const features = Side<K, kUse>::features(at.room);
  float sum = 0;
#pragma unroll
  for (int piece = thread % kShare; piece < K::kWidth / 8; piece += kShare) {
    if (piece * 8 >= rows.width) continue;
    const uint4 of_query = *reinterpret_cast<const uint4*>(features + piece_offset<K::kWidth>(query, piece));
    sum = add_eight_products<typename K::Element>(of_query, *reinterpret_cast<const uint4*>(rows.data + piece * 8), sum);
  }
#pragma unroll
  for (int step = 1; step < kShare; step *= 2) sum += __shfl_xor_sync(~0U, sum, step);
  auto* const to = reinterpret_cast<float*>(at.room.skewed);
  __syncthreads();  // nobody reads what is there any more
  if (thread % kShare == 0) to[query] = sum;
  __syncthreads();
  return to;
}
/// s += what the row adds.
template <class K, RowUse kUse, int kColumns>
__device__ __forceinline__ void add_even_scores(const TableWork& table, const Step<K>& at, int64_t row, float (&s)[kColumns][4]) {
  const float* const of_query = multiply_even_row<K, kUse>(table, at, row);
  const auto scale = static_cast<float>(table.scale);
  each_of_lane(s, [&](float& x, int query, int) { x = fmaf(scale, of_query[query], x); });
}

/// Sums over the tile's keys of what pairs of queries have. Barriers on both sides.
template <class K, int kColumns>
__device__ __forceinline__ const float* sums_over_keys(const std::uint32_t (&pairs)[kColumns][2], typename K::Room& room) {
  using Element = typename K::Element;
  auto* const sums = reinterpret_cast<float*>(room.skewed);
  __syncthreads();  // nobody reads what is there any more
#pragma unroll
  for (int n = 0; n < kColumns; ++n) {
#pragma unroll
    for (int x = 0; x < 2; ++x) {
      float sum = widened<Element>(static_cast<std::uint16_t>(pairs[n][0] >> 16 * x)) +
                  widened<Element>(static_cast<std::uint16_t>(pairs[n][1] >> 16 * x));
#pragma unroll
      for (int step = 4; step < 32; step *= 2) sum += __shfl_xor_sync(~0U, sum, step);
      if (lane_of_warp() < 4) sums[warp_of_block() * K::kQueries + 8 * n + 2 * lane_of_warp() + x] = sum;
    }
  }
  __syncthreads();
  float* const all = sums + kWarps * K::kQueries;
  const auto thread = static_cast<int>(threadIdx.x);
  if (thread < K::kQueries) {
    float sum = sums[thread];
#pragma unroll
    for (int warp = 1; warp < kWarps; ++warp) sum += sums[warp * K::kQueries + thread];
    all[thread] = sum;
  }
  __syncthreads();
  return all;
}

/// Adds to the row's gradient: `sums` of queries times their features. A thread has a channel, of some of the queries.
template <class K, RowUse kUse>
__device__ PHASOR_OUT_OF_LINE void add_even_gradient(const TermWork& term, const Step<K>& at, int64_t row, const float* sums) {
  constexpr int kShare = kBlockThreads / K::kWidth;
  const TableSlot<K> slot = table_slot<K>(term, at);
  if (slot.rows == nullptr) return;
  const auto thread = static_cast<int>(threadIdx.x);
  const int channel = thread % K::kWidth;
  const unsigned char* const features = Side<K, kUse>::features(at.room) + 2 * (channel % 8);
  float sum = 0;
#pragma unroll 8
  for (int query = thread / K::kWidth; query < K::kQueries; query += kShare) {
    const auto bits = *reinterpret_cast<const std::uint16_t*>(features + piece_offset<K::kWidth>(query, channel / 8));
    sum = fmaf(sums[query], widened<typename K::Element>(bits), sum);
  }
  auto* const parts = reinterpret_cast<float*>(at.room.skewed) + (kWarps + 1) * K::kQueries;
  parts[thread] = sum;
  __syncthreads();
  if (thread >= slot.width) return;
#pragma unroll
  for (int part = 1; part < kShare; ++part) sum += parts[part * K::kWidth + thread];
  slot.rows[row * slot.pitch + thread] += static_cast<float>(term.table.scale) * sum;
}
/// q += `sums` of queries times the row.
template <class K>
__device__ __forceinline__ void add_even_features(const TableWork& table, const Step<K>& at, int64_t row, const float* sums,
                                                  float (&q)[K::kChannels / 8][4]) {
  const HeadRows rows = head_rows(table.table, at.tile.queries.sequence.batch, at.tile.head, row, 1);
  const int channel = warp_of_block() % K::kWarpsOfTile * K::kChannels + 2 * (lane_of_warp() & 3);
  const float* const own = sums + warp_of_block() / K::kWarpsOfTile * 16 + lane_of_warp() / 4;
  const auto scale = static_cast<float>(table.scale);
  const float factors[2] = {scale * own[0], scale * own[8]};
#pragma unroll
  for (int n = 0; n < K::kChannels / 8; ++n) {
    if (channel + 8 * n >= rows.width) continue;
    const std::uint32_t two = *reinterpret_cast<const std::uint32_t*>(rows.data + channel + 8 * n);
#pragma unroll
    for (int x = 0; x < 4; ++x) {
      const float of_row = widened<typename K::Element>(static_cast<std::uint16_t>(two >> 16 * (x & 1)));
      q[n][x] = fmaf(factors[x >> 1], of_row, q[n][x]);
    }
  }
}

}  // namespace phasor::cuda::attention::mma::backward
