// SPDX-License-Identifier: Apache-2.0
// A table by distance that is added to values, beside scores in registers (scores.cuh): its rows are with those of the other tables.
// Weights are laid out by distance, each of which is met once, and tensor cores multiply them with the rows. Tiles whose distances all have
// one row only add up their weights: the row meets the sum where another comes, or at the end.
#pragma once

#include "cuda/attention/mma/softmax.cuh"
#include "cuda/attention/mma/tables/scores.cuh"
#include "cuda/attention/mma/values.cuh"

namespace phasor::cuda::attention::mma {

/// Of tiles that have had one row for all distances; parts of four lanes.
struct FarWeights {
  int64_t row = -1;
  float sums[2] = {};
};

/// The row of all distances of a tile, of the table of values; -1: none, or there is no such table.
template <class K>
__device__ __forceinline__ int64_t value_row(const TableStep<K>& step) {
  return step.tables.valued ? step.row_of_tile(step.tables.count - 1) : -1;
}

/// What has been added up meets its row.
template <class K>
__device__ __forceinline__ void end_far(const TableStep<K>& step, FarWeights& far, float (&o)[K::kWidth / 8][4]) {
  if (far.row < 0) return;
  const ConstTensorView& table = step.table(step.tables.count - 1).table;
  add_weighted_row<typename K::Element>(head_rows(table, step.batch, step.head, far.row, 1), far.sums, o);
  far = {};
}
/// A tile whose distances all have one row.
template <class K>
__device__ __forceinline__ void add_far(const TableStep<K>& step, int64_t row, const float (&p)[K::kKeys / 8][4], FarWeights& far,
                                        float (&o)[K::kWidth / 8][4]) {
  if (row != far.row) end_far<K>(step, far, o);
  far.row = row;
  add_up_weights(p, far.sums);
}
/// o += weights x rows of their distances. Places of other warps are theirs; a barrier is before, and behind.
template <class K>
__device__ __forceinline__ void add_near(const TableStep<K>& step, const float (&p)[K::kKeys / 8][4], float (&o)[K::kWidth / 8][4]) {
  using Weights = SkewedWeights<K::kKeys>;
  static_assert(K::kQueries * Weights::kPitch * 2 <= sizeof(step.room.products));
  skew_weights<typename K::Element, K::kKeys>(p, step.room.products);
  __syncwarp();
#pragma unroll
  for (int n = 0; n < Weights::kColumns / 16; ++n) {
    std::uint32_t left[4];
    left_from(left, step.room.products, 2 * Weights::kPitch, 16 * warp_of_block(), 16 * n);
    add_rows<typename K::Element, K::kWidth>(o, left, step.room.rows[step.tables.count - 1], step.place(16 * (warp_of_block() + n)), 0);
  }
}

/// Weights meet values and the table's rows; rows of the next tile are asked for as soon as nobody needs those in their places.
template <class K>
__device__ __forceinline__ void end_tabled_tile(TableStep<K>& step, bool more, const float (&p)[1][K::kKeys / 8][4], const Rows<1>& rows,
                                                FarWeights& far, float (&o)[1][K::kWidth / 8][4]) {
  const int64_t row = value_row<K>(step);
  const bool near = row == kSeveralRows;
#pragma unroll
  for (int h = 0; h < 2; ++h) far.sums[h] *= rows.shrink[h];
  if (row >= 0) add_far<K>(step, row, p[0], far, o[0]);
  if (more && !near) bring_next_rows<K>(step);
  add_values<typename K::Element, K::kWidth, K::kKeys, 1>(o, p, step.at.values);
  if (!near) return;
  add_near<K>(step, p[0], o[0]);
  __syncthreads();  // nobody reads the rows any more
  if (more) bring_next_rows<K>(step);
}

}  // namespace phasor::cuda::attention::mma
