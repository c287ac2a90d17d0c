// SPDX-License-Identifier: Apache-2.0
// The thread that drives the copy engine: claims blocks of queries, brings them and the tiles of keys and values that they see.
#pragma once

#include "cuda/attention/hopper/forward/body.cuh"

namespace phasor::cuda::hopper {

/// All panels of a tile, from a token of a head on.
template <class Panels>
__device__ __forceinline__ void copy_tile(Panels& to, const CUtensorMap* map, bool whole, std::uint64_t* full, const Work& from) {
  if (whole) return copy_in(to, map, full, {0, from.row, 0, from.head, from.batch});
  for (int x = 0; x < int(sizeof(to) / sizeof(to[0])); ++x) copy_in(to[x], map, full, {64 * x, from.row, 0, from.head, from.batch});
}

template <class B>
struct Producer {
  typename B::Shared& shared;
  const ForwardParameter& p;
  Ring<B::kStages> k, v;

  __device__ __forceinline__ void bring_keys(const Work& at, int key) {
    std::uint64_t* const full = &shared.k_full[k.stage];
    barrier_wait(&shared.k_empty[k.stage], k.parity ^ 1);
    barrier_expect(full, int(sizeof(shared.k[0])) + B::Term::template bytes<B::kQueries, B::kKeys>(p, at, key));
    copy_tile(shared.k[k.stage], &p.k, p.whole, full, {key, at.head / p.tiles.heads_of_key, at.batch});
    B::Term::template bring<B::kQueries, B::kKeys>(p, at, key, shared.term, k.stage, full);
    k.next();
  }
  __device__ __forceinline__ void bring_values(const Work& at, int key) {
    std::uint64_t* const full = &shared.v_full[v.stage];
    barrier_wait(&shared.v_empty[v.stage], v.parity ^ 1);
    barrier_expect(full, sizeof(shared.v[0]));
    copy_tile(shared.v[v.stage], &p.v, p.whole_values, full, {key, at.head / p.tiles.heads_of_key, at.batch});
    v.next();
  }
  /// A table passes as keys do, before them.
  __device__ __forceinline__ void bring_table(const Work& at) {
    if (B::Term::kHasValueRows && !p.has_key_table) return;
    for (int row = 0; row < p.clips.rows(); row += B::kKeys) {
      std::uint64_t* const full = &shared.k_full[k.stage];
      barrier_wait(&shared.k_empty[k.stage], k.parity ^ 1);
      barrier_expect(full, int(sizeof(shared.k[0])));
      copy_tile(shared.k[k.stage], &p.table, p.whole, full, {row, p.clips.by_head ? at.head : 0, 0});
      k.next();
    }
  }
  /// Of the table of values, from the second row on, as one more tile of them.
  __device__ __forceinline__ void bring_value_rows(const Work& at) {
    std::uint64_t* const full = &shared.v_full[v.stage];
    barrier_wait(&shared.v_empty[v.stage], v.parity ^ 1);
    barrier_expect(full, sizeof(shared.v[0]));
    copy_tile(shared.v[v.stage], &p.value_table, p.whole_values, full, {1, p.value_rows_head != 0 ? at.head : 0, 0});
    v.next();
  }
  __device__ __forceinline__ void run() {
    std::uint32_t q_parity = 1;
    const auto [first, end] = B::Term::numbers(p);
    for (int number = first + blockIdx.x;;) {
      const int after = first + gridDim.x + atomicAdd(p.next, 1);  // asked for early: the answer takes long
      barrier_wait(&shared.q_empty, q_parity);
      q_parity ^= 1;
      shared.work = number < end ? number : -1;
      if (number >= end) {
        barrier_arrive(&shared.q_full);
        return;
      }
      const Work at = work_at(p.tiles, number);
      barrier_expect(&shared.q_full, sizeof(shared.q));
      copy_tile(shared.q, &p.q, p.whole, &shared.q_full, at);
      if constexpr (B::Term::kHasTable) bring_table(at);
      const TileSpan span = B::Term::span(p, at);
      for (int j = span.end; j >= span.first; --j) {  // the keys one tile ahead of the values
        if (j > span.first) bring_keys(at, (j - 1) * B::kKeys);
        if (j < span.end) bring_values(at, j * B::kKeys);
      }
      if constexpr (B::Term::kHasValueRows) bring_value_rows(at);
      number = after;
    }
  }
};

}  // namespace phasor::cuda::hopper
