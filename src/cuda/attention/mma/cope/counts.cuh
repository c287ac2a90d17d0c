// SPDX-License-Identifier: Apache-2.0
// CoPE in the registers of products: a lane has two queries and pairs of keys. Gates are added up from the query backwards, so tiles of
// keys come from the last to the first, and a carry of each query has the gates of the tiles before. Products with every row of the table
// are in shared memory; a score finds the two that its count lies between.
#pragma once

#include "cuda/attention/mma/cope/room.hpp"
#include "cuda/attention/mma/registers.cuh"
#include "cuda/attention/mma/rows.cuh"

namespace phasor::cuda::attention::mma::cope {

/// What a warp's 16 queries count with.
struct Counting {
  const float* products;  // of the lane's first query with row r of the table at r
  int pitch;              // from a query to the next
  float last;             // row of the table
  float gate;             // scale of gates, times log2(e)
  float scale;            // of what is added
};
__device__ inline Counting counting_of(const CopeTerm& term, const float* products) {
  const int64_t rows = term.table.shape[1];
  const int pitch = product_pitch(rows);
  return {products + (16 * warp_of_block() + lane_of_warp() / 4) * pitch, pitch, static_cast<float>(rows - 1),
          static_cast<float>(term.gate_scale) * kLog2E, static_cast<float>(term.scale)};
}

// ---- Rows of the table ----

/// Brings kRows rows from `first` on; zeros beyond the last. Barriers on both sides.
template <int kRows, int kWidth>
__device__ __forceinline__ void stage_table(const ConstTensorView& table, int64_t head, int64_t first, std::uint32_t to) {
  __syncthreads();  // nobody reads what is there any more
  bring_rows<kRows, kWidth>(to, head_rows(table, 0, head, first, least(kRows, table.shape[1] - first)));
  copies_commit();
  copies_wait<0>();
  __syncthreads();
}

/// products = those of the block's queries, which are on their way, with all rows: kRows at a time in `staged`. A warp sees its own.
template <class Element, int kWidth, int kRows>
__device__ inline void multiply_table(const ConstTensorView& table, int64_t head, std::uint32_t q, std::uint32_t staged, float* products) {
  const auto rows = static_cast<int>(table.shape[1]);
  const int columns = columns_of(rows);
  const int pitch = product_pitch(rows);
  float* const own = products + (16 * warp_of_block() + lane_of_warp() / 4) * pitch + 2 * (lane_of_warp() & 3);
  for (int first = 0; first < rows; first += kRows) {
    stage_table<kRows, kWidth>(table, head, first, staged);
    float d[1][kRows / 8][4] = {};
    multiply_rows<Element, kWidth, kRows, 1>(d, q, 16 * warp_of_block(), staged);
#pragma unroll
    for (int n = 0; n < kRows / 8; ++n) {
      if (first + 8 * n >= columns) continue;
#pragma unroll
      for (int h = 0; h < 2; ++h) *reinterpret_cast<float2*>(own + 8 * h * pitch + first + 8 * n) = {d[0][n][2 * h], d[0][n][2 * h + 1]};
    }
  }
  __syncwarp();
}

// ---- Sums along a row ----

enum class From : std::uint8_t { first_key, last_key };

/// Numbers of a lane's query h become sums up to and with themselves, and `carry` those of all: from the first key or from the last. Four
/// lanes have a query, and all of them its carry.
template <From kFrom, int kColumns>
__device__ __forceinline__ void add_up_row(float (&x)[kColumns][4], int h, float& carry) {
  constexpr bool kLast = kFrom == From::last_key;
  const int t = lane_of_warp() & 3;
  const bool beside_is_before = kLast ? (t & 1) == 0 : (t & 1) != 0;
  const bool others_are_before = kLast ? t < 2 : t >= 2;
#pragma unroll
  for (int step = 0; step < kColumns; ++step) {
    float(&four)[4] = x[kLast ? kColumns - 1 - step : step];
    float& one = four[2 * h + (kLast ? 1 : 0)];
    float& next = four[2 * h + (kLast ? 0 : 1)];
    const float own = one + next;
    const float beside = __shfl_xor_sync(~0U, own, 1);
    const float two = own + beside;
    const float others = __shfl_xor_sync(~0U, two, 2);
    const float before = (others_are_before ? others : 0) + (beside_is_before ? beside : 0);
    one += carry + before;
    next += one;
    carry += two + others;
  }
}

// ---- Gates and counts ----

/// 1 / (1 + 2^-x), as plan::gate_of has it for a power of e: no power overflows.
__device__ __forceinline__ float gate_of_power(float x) {
  const float power = exp2_approximate(-fabsf(x));
  const float of_positive = reciprocal_approximate(1 + power);
  return x < 0 ? power * of_positive : of_positive;
}

/// The gates of products s, which are -infinity where a key is not seen: those have none, and neither has a key of a prefix ahead of its
/// query. Keys from number `key` of the sequence on.
template <int kColumns>
__device__ __forceinline__ void make_gates(const float (&s)[kColumns][4], const WarpScores& w, const Counting& counting, int key,
                                           float (&gates)[kColumns][4]) {
#pragma unroll
  for (int n = 0; n < kColumns; ++n) {
#pragma unroll
    for (int x = 0; x < 4; ++x) gates[n][x] = s[n][x] == -INFINITY ? 0 : gate_of_power(s[n][x] * counting.gate);
  }
  if (key + 8 * kColumns - 1 <= w.lowest) return;
  const int own = key + 2 * (lane_of_warp() & 3);
#pragma unroll
  for (int n = 0; n < kColumns; ++n) {
#pragma unroll
    for (int x = 0; x < 4; ++x) {
      if (own + 8 * n + (x & 1) > w.position + 8 * (x >> 1)) gates[n][x] = 0;
    }
  }
}

/// Counts beyond the last row are the last row. So is NaN, whose score is NaN by q . k anyway.
__device__ __forceinline__ float within(float count, const Counting& counting) { return count < counting.last ? count : counting.last; }

/// The product between the rows on either side of a count within the table, and the step from the one to the other: 0 from a row to
/// itself.
struct Between {
  float value;
  float step;
};
__device__ __forceinline__ Between between_rows(const Counting& counting, int h, float count) {
  const auto lower = static_cast<int>(count);
  const float part = count - static_cast<float>(lower);
  const float* const at = counting.products + 8 * h * counting.pitch + lower;
  const float value = at[0];
  if (part == 0) return {value, 0};
  const float step = at[1] - value;
  return {fmaf(part, step, value), step};
}

/// Whether every query of the warp has counted to the last row: keys before need no gates.
__device__ __forceinline__ bool are_past(const float (&carry)[2], const Counting& counting) {
  float least = fminf(carry[0], carry[1]);
#pragma unroll
  for (int lanes = 4; lanes < 32; lanes *= 2) least = fminf(least, __shfl_xor_sync(~0U, least, lanes));
  return least >= counting.last;
}

// ---- The forward's scores ----

/// s: products become scores, -infinity for what is not seen; the carry goes on.
template <int kColumns>
__device__ __forceinline__ void make_counted_scores(float (&s)[1][kColumns][4], const WarpScores& w, const Counting& counting, int key,
                                                    float (&carry)[2]) {
  finish_scores<false>(s, w, key);
  float counts[kColumns][4];
  if (are_past(carry, counting)) {
#pragma unroll
    for (int n = 0; n < kColumns; ++n) {
#pragma unroll
      for (int x = 0; x < 4; ++x) counts[n][x] = counting.last;
    }
  } else {
    make_gates(s[0], w, counting, key, counts);
#pragma unroll
    for (int h = 0; h < 2; ++h) add_up_row<From::last_key>(counts, h, carry[h]);
  }
#pragma unroll
  for (int n = 0; n < kColumns; ++n) {
#pragma unroll
    for (int x = 0; x < 4; ++x) {
      float& score = s[0][n][x];
      if (score == -INFINITY) continue;
      score = fmaf(score, w.scale, counting.scale * between_rows(counting, x >> 1, within(counts[n][x], counting)).value);
      if (w.softcap != 0) score = capped(score, w.softcap);
    }
  }
}

}  // namespace phasor::cuda::attention::mma::cope
