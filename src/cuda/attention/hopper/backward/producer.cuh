// SPDX-License-Identifier: Apache-2.0
// The two threads that serve the consumers of a backward: one drives the copy engine, one gives turns at adding to dq.
#pragma once

#include "cuda/attention/hopper/backward/body.cuh"
#include "cuda/attention/hopper/forward/producer.cuh"

namespace phasor::cuda::hopper {

template <class B>
struct BackwardProducer {
  typename B::Shared& shared;
  const BackwardParameter& p;
  Ring<B::kStages> stage = {};

  /// The window of a bias that a tile needs, in bytes of one copy; 0: it is far, or there is none.
  __device__ __forceinline__ int window_bytes(int key, int row) const {
    return B::kBias && far_side(p.tiles, p.windows, key, row) == 0 ? B::kWindow * int(sizeof(float)) : 0;
  }
  __device__ __forceinline__ void bring_queries(const KeyWork& at, int head, int row) {
    std::uint64_t* const full = &shared.q_full[stage.stage];
    const int window = window_bytes(at.key(), row);
    barrier_wait(&shared.q_empty[stage.stage], stage.parity ^ 1);
    if constexpr (B::kBias) {
      const float* const far = p.windows.far + head * p.windows.far_of_head;
      shared.shift[stage.stage] = window != 0 ? 0 : __ldg(far + (far_side(p.tiles, p.windows, at.key(), row) > 0 ? 1 : 0)) * p.scale_log2;
    }
    barrier_expect(full, int(sizeof(shared.q[0]) + sizeof(shared.lse[0])) + 2 * window);
    copy_tile(shared.q[stage.stage], &p.q, p.whole, full, {row, head, at.batch});
    copy_in_bytes(shared.lse[stage.stage], p.lse + p.row_number(at.batch, head, row), sizeof(shared.lse[0]), full);
    if (window == 0) return;
    const Windows& w = p.windows;
    const float* const from = w.values + head * w.of_head + (row - at.key() - B::kKeys - w.first);
    copy_in_bytes(shared.window[stage.stage][0], from, window, full);
    copy_in_bytes(shared.window[stage.stage][1], from + w.length, window, full);
  }
  __device__ __forceinline__ void bring_gradients(const KeyWork& at, int head, int row) {
    std::uint64_t* const full = &shared.g_full[stage.stage];
    barrier_wait(&shared.g_empty[stage.stage], stage.parity ^ 1);
    barrier_expect(full, int(sizeof(shared.g[0]) + sizeof(shared.delta[0])));
    copy_tile(shared.g[stage.stage], &p.g, p.whole_values, full, {row, head, at.batch});
    copy_in_bytes(shared.delta[stage.stage], p.delta + p.row_number(at.batch, head, row), sizeof(shared.delta[0]), full);
  }
  __device__ __forceinline__ void run() {
    std::uint32_t parity = 1;
    const int all = p.tiles.work();
    for (int number = atomicAdd(p.next, 1);;) {
      barrier_wait(&shared.kv_empty, parity);
      parity ^= 1;
      shared.work = number < all ? number : -1;
      if (number >= all) {
        barrier_arrive(&shared.kv_full);
        return;
      }
      const KeyWork at = key_work_at(p.tiles, number);
      barrier_expect(&shared.kv_full, sizeof(shared.k) + sizeof(shared.v));
      copy_tile(shared.k, &p.k, p.whole, &shared.kv_full, {at.key(), at.key_head, at.batch});
      copy_tile(shared.v, &p.v, p.whole_values, &shared.kv_full, {at.key(), at.key_head, at.batch});
      for (Walk walk(p.tiles, at); walk.is_there(); walk.next()) {
        bring_queries(at, walk.head, walk.tile * B::kQueries);
        bring_gradients(at, walk.head, walk.tile * B::kQueries);
        stage.next();
      }
      number = atomicAdd(p.next, 1);
    }
  }
};

/// Blocks add to a tile of dq in ascending order. A turn is over once everybody's additions are on their way and fenced.
template <class B>
__device__ __forceinline__ void give_turns(typename B::Shared& shared, const BackwardParameter& p) {
  std::uint32_t kv_parity = 0, parity = 0;
  for (;;) {
    barrier_wait(&shared.kv_full, kv_parity);
    kv_parity ^= 1;
    const int number = shared.work;
    barrier_arrive(&shared.kv_empty);
    if (number < 0) return;
    const KeyWork at = key_work_at(p.tiles, number);
    for (Walk walk(p.tiles, at); walk.is_there(); walk.next()) {
      int* const turns = p.turns + p.tile_number(at.batch, walk.head, walk.tile);
      const int before = at.block - key_blocks(p.tiles, walk.tile).first;
      if (before > 0) {
        while (load_acquired(turns) != before) __nanosleep(32);
      }
      shared.first_turn = before == 0;
      barrier_arrive(&shared.turn);
      barrier_wait(&shared.added, parity);
      parity ^= 1;
      store_released(turns, before + 1);
    }
  }
}

}  // namespace phasor::cuda::hopper
