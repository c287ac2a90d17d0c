// SPDX-License-Identifier: Apache-2.0
// The two threads that serve the consumers of a backward: one brings tiles, one takes dq away.
#pragma once

#include "cuda/attention/hopper/backward/body.cuh"
#include "cuda/attention/hopper/forward/producer.cuh"

namespace phasor::cuda::hopper {

template <class B>
struct BackwardProducer {
  typename B::Shared& shared;
  const BackwardParameter& p;
  Ring<B::kStages> stage = {};

  __device__ __forceinline__ int marks_of(const KeyWork& at, const Walk& walk, int side) const {
    const int row = walk.tile * B::kQueries;
    return (is_partial(p.tiles, at.key(), row) ? kPartialForFirst : 0) | (is_partial(p.tiles, at.key() + 64, row) ? kPartialForSecond : 0) |
           (side < 0 ? kFarLeft : 0) | (side > 0 ? kFarRight : 0) | (walk.is_last_of_head() ? kLastOfHead : 0);
  }
  /// The strip's number; the strip itself is read by consumers, from the L2.
  __device__ __forceinline__ void bring_strip(const KeyWork& at, const Walk& walk) const {
    const int first = near_blocks(p.tiles, p.table.clips, walk.tile).first;
    const unsigned strip =
        unsigned(p.tile_number(at.batch, walk.head, walk.tile)) * unsigned(p.table.near_blocks) + unsigned(at.block - first);
    shared.strip[stage.stage] = strip;
    constexpr int kBytes = B::kKeys * B::kQueries * 2;
    prefetch_bytes(reinterpret_cast<const unsigned char*>(p.table.strips) + std::int64_t{strip} * kBytes, kBytes);
  }
  __device__ __forceinline__ void bring_queries(const KeyWork& at, const Walk& walk) {
    std::uint64_t* const full = &shared.q_full[stage.stage];
    const int head = walk.head, row = walk.tile * B::kQueries;
    const int side = B::kHasFar ? far_side(p.tiles, p.windows, at.key(), row) : 0;
    const int marks = marks_of(at, walk, side);
    const int window = B::kBias && side == 0 ? B::kWindow * int(sizeof(float)) : 0;  // bytes of one copy
    const float shift = !B::kBias || side == 0 ? 0 : __ldg(p.windows.far + head * p.windows.far_of_head + (side > 0 ? 1 : 0));
    barrier_wait(&shared.q_empty[stage.stage], stage.parity ^ 1);
    shared.shift[stage.stage] = shift;
    shared.row[stage.stage] = row;
    shared.marks[stage.stage] = marks;
    if constexpr (B::kKeyTable) shared.head[stage.stage] = at.batch * p.tiles.heads + head;
    const float* lse = p.lse;
    if constexpr (B::kTable) {
      lse += (side < 0 ? 1 : side > 0 ? 2 : 0) * p.table.lse_of_side;
      if (side == 0) bring_strip(at, walk);
    }
    barrier_expect(full, int(sizeof(shared.q[0]) + sizeof(shared.lse[0])) + 2 * window);
    copy_tile(shared.q[stage.stage], &p.q, p.whole, full, {row, head, at.batch});
    copy_in_bytes(shared.lse[stage.stage], lse + p.row_number(at.batch, head, row), sizeof(shared.lse[0]), full);
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
      shared.key = at.key();
      barrier_expect(&shared.kv_full, sizeof(shared.k) + sizeof(shared.v));
      copy_tile(shared.k, &p.k, p.whole, &shared.kv_full, {at.key(), at.key_head, at.batch});
      copy_tile(shared.v, &p.v, p.whole_values, &shared.kv_full, {at.key(), at.key_head, at.batch});
      for (Walk walk(p.tiles, at); walk.is_there(); walk.next()) {
        bring_queries(at, walk);
        bring_gradients(at, walk.head, walk.tile * B::kQueries);
        stage.next();
      }
      number = atomicAdd(p.next, 1);
    }
  }
};

__device__ __forceinline__ void wait_for_turn(const BackwardParameter& p, const int* turns, int before) {
  if (before == 0) return;
  const int awaited = p.deterministic ? before : 1;
  while (load_acquired(turns) < awaited) __nanosleep(32);
  fence_copies();
}
__device__ __forceinline__ void end_turn(int* turns, int now) {
  copies_out_wait();
  fence_copies();
  store_released(turns, now);
}

/// Adds tiles of dq to what is in global memory. Blocks have turns at a tile in ascending order, or come in any order but for the first
/// one, whose numbers are stored. A turn is over once its numbers are there.
template <class B>
__device__ __forceinline__ void take_queries(typename B::Shared& shared, const BackwardParameter& p) {
  std::uint32_t kv_parity = 0, parity = 0;
  for (;;) {
    barrier_wait(&shared.kv_full, kv_parity);
    kv_parity ^= 1;
    const int number = shared.work;
    barrier_arrive(&shared.kv_empty);
    if (number < 0) return;
    const KeyWork at = key_work_at(p.tiles, number);
    for (Walk walk(p.tiles, at); walk.is_there(); walk.next()) {
      const int tile = p.tile_number(at.batch, walk.head, walk.tile);
      const int before = at.block - key_blocks(p.tiles, walk.tile).first;
      wait_for_turn(p, p.turns + tile, before);
      barrier_wait(&shared.dq_full, parity);
      parity ^= 1;
      float* const to = p.dq + std::int64_t{tile} * int(sizeof(shared.dq) / sizeof(float));
      if (before == 0) {
        copy_out_bytes(to, shared.dq, sizeof(shared.dq));
      } else {
        add_floats(to, shared.dq, sizeof(shared.dq));
      }
      copies_out_commit();
      copies_out_wait_read();
      barrier_arrive(&shared.dq_empty);
      if (before == 0 || p.deterministic) end_turn(p.turns + tile, before + 1);
    }
  }
}

}  // namespace phasor::cuda::hopper
