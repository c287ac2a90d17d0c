// SPDX-License-Identifier: Apache-2.0
// A tile of the backward with CoPE, in the registers of products: a lane has two queries and pairs of keys. Scores again, weights by the
// log-sum-exp that the forward saved, gradients of scores; those of counts, which add up towards the gates that they counted; and those of
// products with rows of the table.
#pragma once

#include "cuda/attention/backward/place.hpp"
#include "cuda/attention/mma/cope/counts.cuh"

namespace phasor::cuda::attention::mma::cope {

template <class Element_, int kWidth_>
struct BackwardKind {
  using Element = Element_;
  static constexpr int kWidth = kWidth_;
  using Room = cope::Room<kWidth>;
  static constexpr int kKeys = Room::kKeys;
  static constexpr int kColumns = kKeys / 8;
};

/// A gradient of q . k is a part by the score and one by the gate. Both go to tensor cores in one number of 16 bits, relative to the larger
/// scale, so that neither is lost to the range of float16.
struct Factors {
  float all;
  float score;
  float gate;
};
__device__ inline Factors factors_of(double scale, double gate_scale) {
  const double all = fmax(fabs(scale), fabs(gate_scale));
  if (all == 0) return {0, 0, 0};
  return {static_cast<float>(all), static_cast<float>(scale / all), static_cast<float>(gate_scale / all)};
}

/// A block's tile of queries of one head, and where its numbers are in shared memory.
template <class K>
struct Strip {
  const AttentionWork& work;
  const BackwardPlace& place;
  const QueryTile& queries;
  int64_t head;
  const CopeTerm& term;
  typename K::Room& room;
  float* products;
  unsigned char* gradients;  // of products, in 16 bits
  int gradient_pitch;
  Counting counting;
  WarpScores scores;
  Factors factors;

  /// Of the queries that the room names.
  __device__ Strip(const AttentionWork& work, int64_t head, unsigned char* memory)
      : work(work),
        place(reinterpret_cast<typename K::Room*>(memory)->place),
        queries(reinterpret_cast<typename K::Room*>(memory)->queries),
        head(head),
        term(work.terms[0].cope),
        room(*reinterpret_cast<typename K::Room*>(memory)),
        products(reinterpret_cast<float*>(memory + sizeof(typename K::Room))),
        gradients(memory + sizeof(typename K::Room) + product_bytes(term.table.shape[1])),
        gradient_pitch(cope::gradient_pitch(term.table.shape[1])),
        counting(counting_of(term, products)),
        scores(warp_scores(work, queries, head, 16)),
        factors(factors_of(work.scale, term.gate_scale)) {}

  /// With the tile of keys of that number.
  __device__ ScoreTile tile_at(int64_t number) const {
    const Sequence& sequence = queries.sequence;
    return {queries, head, key_head_of(work, head), sequence.first_key + number * K::kKeys,
            least(K::kKeys, sequence.keys - number * K::kKeys)};
  }
  __device__ int number_of(const ScoreTile& tile) const { return static_cast<int>(tile.first_key - queries.sequence.first_key); }
};

/// Where a block keeps the counts of its queries at each tile of keys.
template <class K>
__device__ inline float* carry_at(const Strip<K>& at, int64_t number) {
  return slot_at<float>(at.work, at.place.index, at.work.backward.carry) + number * kQueries + 16 * warp_of_block() + lane_of_warp() / 4;
}

/// s = q . k, -infinity where a key is not seen.
template <class K>
__device__ __forceinline__ void make_products(const Strip<K>& at, const ScoreTile& tile, float (&s)[1][K::kColumns][4]) {
  multiply_rows<typename K::Element, K::kWidth, K::kKeys, 1>(s, shared_address(at.room.q), 16 * warp_of_block(), shared_address(at.room.k));
  finish_scores<false>(s, at.scores, at.number_of(tile));
}

/// p: scores become weights; ds: their gradients.
template <class K>
__device__ __forceinline__ void make_gradients(const Strip<K>& at, float (&p)[K::kColumns][4], float (&ds)[1][K::kColumns][4]) {
  const typename K::Room& room = at.room;
  multiply_rows<typename K::Element, K::kWidth, K::kKeys, 1>(ds, shared_address(room.out_gradient), 16 * warp_of_block(),
                                                             shared_address(room.v));
  const int query = 16 * warp_of_block() + lane_of_warp() / 4;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const float lse = room.lse[query + 8 * h];
    const float delta = room.delta[query + 8 * h];
#pragma unroll
    for (int n = 0; n < K::kColumns; ++n) {
#pragma unroll
      for (int x = 2 * h; x < 2 * h + 2; ++x) {
        p[n][x] = exp2_approximate(fmaf(p[n][x], kLog2E, -lse));
        ds[0][n][x] = p[n][x] == 0 ? 0 : p[n][x] * (ds[0][n][x] - delta);
      }
    }
  }
}

// ---- Gradients of products with rows of the table ----

/// Stores a query's gradient by its product with a row, once its sum is complete.
template <class K>
__device__ __forceinline__ void put_gradient(const Strip<K>& at, int query, int row, float x) {
  if (row >= at.term.table.shape[1]) return;  // beyond the last there is none, and x is 0
  auto* const to = reinterpret_cast<std::uint16_t*>(at.gradients) + query * at.gradient_pitch + row;
  *to = static_cast<std::uint16_t>(pack<typename K::Element>(x, 0));
}

/// Adds up a query's gradients by its products with rows of the table, one thread for a query; counts and gradients of scores go there by
/// shared memory. A score adds to the two rows that its count lies between. From the first key to the last counts only fall, so a row is
/// complete as soon as a count is below it, and no more than two sums are open: those of rows lower and lower + 1. Within a tile and from
/// tile to tile counts are added up in different orders, so one may rise again by a rounding, to lower + 1 and a little more: it is taken
/// as beyond row lower by that much more than 1, rather than opening a row again.
template <class K>
__device__ __forceinline__ void take_counts(const Strip<K>& at, const ScoreTile& tile, const float (&counts)[K::kColumns][4],
                                            const float (&ds)[K::kColumns][4]) {
  constexpr int kPitch = K::Room::kPairPitch;
  typename K::Room& room = at.room;
  auto* const pairs = reinterpret_cast<float*>(room.scores);
#pragma unroll
  for (int n = 0; n < K::kColumns; ++n) {
#pragma unroll
    for (int x = 0; x < 4; ++x) {
      const int query = 16 * warp_of_block() + lane_of_warp() / 4 + 8 * (x >> 1);
      const int key = 8 * n + 2 * (lane_of_warp() & 3) + (x & 1);
      *reinterpret_cast<float2*>(pairs + query * kPitch + 2 * key) = {counts[n][x], ds[n][x]};
    }
  }
  __syncwarp();
  if (lane_of_warp() >= 16) return;
  const int query = 16 * warp_of_block() + lane_of_warp();
  const float* const own = pairs + query * kPitch;
  int lower = room.lower[query];
  float at_lower = room.at_lower[query];
  float above = room.above[query];
#pragma unroll 8
  for (int j = 0; j < tile.keys; ++j) {
    const float2 pair = *reinterpret_cast<const float2*>(own + 2 * j);
    const int row = static_cast<int>(pair.x);
    if (row < lower) {
      put_gradient(at, query, lower + 1, above);
      if (row + 1 < lower) put_gradient(at, query, lower, at_lower);
      above = row + 1 < lower ? 0 : at_lower;
      at_lower = 0;
      lower = row;
    }
    const float part = pair.x - static_cast<float>(lower);
    above = fmaf(part, pair.y, above);
    at_lower = fmaf(1 - part, pair.y, at_lower);
  }
  room.lower[query] = lower;
  room.at_lower[query] = at_lower;
  room.above[query] = above;
}

/// What is still open after the last key.
template <class K>
__device__ inline void end_gradients(const Strip<K>& at) {
  __syncthreads();  // the sums of all lanes are there
  if (lane_of_warp() >= 16) return;
  const int query = 16 * warp_of_block() + lane_of_warp();
  put_gradient(at, query, at.room.lower[query] + 1, at.room.above[query]);
  put_gradient(at, query, at.room.lower[query], at.room.at_lower[query]);
}

// ---- A tile ----

/// p = weights, ds = gradients of q . k over the factor that they have in common. `carry`: gradients by the counts of the keys before.
template <class K>
__device__ __forceinline__ void counted_gradients(const Strip<K>& at, int64_t number, float (&carry)[2], float (&p)[1][K::kColumns][4],
                                                  float (&ds)[1][K::kColumns][4]) {
  const ScoreTile tile = at.tile_at(number);
  const float* const later = carry_at(at, number);
  make_products<K>(at, tile, p);
  float gates[K::kColumns][4];
  make_gates(p[0], at.scores, at.counting, at.number_of(tile), gates);
  float counts[K::kColumns][4];
  float steps[K::kColumns][4];
#pragma unroll
  for (int n = 0; n < K::kColumns; ++n) {
#pragma unroll
    for (int x = 0; x < 4; ++x) counts[n][x] = gates[n][x];
  }
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    float sum = later[8 * h];
    add_up_row<From::last_key>(counts, h, sum);
  }
#pragma unroll
  for (int n = 0; n < K::kColumns; ++n) {
#pragma unroll
    for (int x = 0; x < 4; ++x) {
      counts[n][x] = within(counts[n][x], at.counting);
      const Between between = between_rows(at.counting, x >> 1, counts[n][x]);
      steps[n][x] = between.step;
      p[0][n][x] = p[0][n][x] == -INFINITY ? -INFINITY : fmaf(p[0][n][x], at.scores.scale, at.counting.scale * between.value);
    }
  }
  make_gradients<K>(at, p[0], ds);
  take_counts<K>(at, tile, counts, ds[0]);
  __syncwarp();
#pragma unroll
  for (int n = 0; n < K::kColumns; ++n) {
#pragma unroll
    for (int x = 0; x < 4; ++x) steps[n][x] = ds[0][n][x] == 0 ? 0 : ds[0][n][x] * at.counting.scale * steps[n][x];
  }
#pragma unroll
  for (int h = 0; h < 2; ++h) add_up_row<From::first_key>(steps, h, carry[h]);
#pragma unroll
  for (int n = 0; n < K::kColumns; ++n) {
#pragma unroll
    for (int x = 0; x < 4; ++x) {
      const float gate = gates[n][x];
      const float by_gate = gate == 0 ? 0 : at.factors.gate * steps[n][x] * gate * (1 - gate);
      ds[0][n][x] = fmaf(at.factors.score, ds[0][n][x], by_gate);
    }
  }
}

/// The same where every query has counted to the last row: no gate matters.
template <class K>
__device__ __forceinline__ void past_gradients(const Strip<K>& at, const ScoreTile& tile, float (&p)[1][K::kColumns][4],
                                               float (&ds)[1][K::kColumns][4]) {
  make_products<K>(at, tile, p);
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const float added = at.counting.scale * between_rows(at.counting, h, at.counting.last).value;
#pragma unroll
    for (int n = 0; n < K::kColumns; ++n) {
#pragma unroll
      for (int x = 2 * h; x < 2 * h + 2; ++x) p[0][n][x] = p[0][n][x] == -INFINITY ? -INFINITY : fmaf(p[0][n][x], at.scores.scale, added);
    }
  }
  make_gradients<K>(at, p[0], ds);
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    float sum = 0;
#pragma unroll
    for (int n = 0; n < K::kColumns; ++n) sum += ds[0][n][2 * h] + ds[0][n][2 * h + 1];
    sum += __shfl_xor_sync(~0U, sum, 1);
    sum += __shfl_xor_sync(~0U, sum, 2);
    if ((lane_of_warp() & 3) == 0) at.room.at_lower[16 * warp_of_block() + lane_of_warp() / 4 + 8 * h] += sum;
#pragma unroll
    for (int n = 0; n < K::kColumns; ++n) {
      ds[0][n][2 * h] *= at.factors.score;
      ds[0][n][2 * h + 1] *= at.factors.score;
    }
  }
}

/// A warp's 16 queries in 16 bits, by queries.
template <class K>
__device__ __forceinline__ void store_narrow(unsigned char* to, const float (&x)[K::kColumns][4]) {
  unsigned char* const own = to + (16 * warp_of_block() + lane_of_warp() / 4) * K::Room::kNarrowPitch + 4 * (lane_of_warp() & 3);
#pragma unroll
  for (int n = 0; n < K::kColumns; ++n) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      *reinterpret_cast<std::uint32_t*>(own + 8 * h * K::Room::kNarrowPitch + 16 * n) =
          pack<typename K::Element>(x[n][2 * h], x[n][2 * h + 1]);
    }
  }
}

}  // namespace phasor::cuda::attention::mma::cope
