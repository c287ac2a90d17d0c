// SPDX-License-Identifier: Apache-2.0
// The thread that drives the copy engine where rows of a table pass with the keys.
#pragma once

#include "cuda/attention/hopper/forward/producer.cuh"
#include "cuda/attention/hopper/window/body.cuh"

namespace phasor::cuda::hopper {

template <class B>
struct WindowProducer {
  typename B::Shared& shared;
  const ForwardParameter& p;
  Ring<B::kStages> k, v;
  bool after_beyond = false;  // memory of the next stages has been that of tiles beyond the rows

  /// Until consumers are done with all that came by a ring.
  __device__ __forceinline__ void wait_for_all(std::uint64_t (&empty)[B::kStages], Ring<B::kStages> ring) {
#pragma unroll
    for (int x = 0; x < B::kStages; ++x, ring.next()) barrier_wait(&empty[ring.stage], ring.parity ^ 1);
  }
  /// Keys of a tile that is beyond the table's rows.
  __device__ __forceinline__ void bring_keys(const Work& at, int key) {
    std::uint64_t* const full = &shared.k_full[k.stage];
    barrier_wait(&shared.k_empty[k.stage], k.parity ^ 1);
    barrier_expect(full, int(sizeof(shared.k[0])));
    copy_tile(shared.k[k.stage], &p.k, p.whole, full, {key, at.head / p.tiles.heads_of_key, at.batch});
    k.next();
  }
  /// A block of the table's rows and, with it, the keys from `key` on; below 0: none.
  __device__ __forceinline__ void bring(const Work& at, int begin, int key) {
    std::uint64_t* const full = &shared.k_full[k.stage];
    const bool shifted = p.sums.columns != nullptr;
    constexpr int kLine = int(sizeof(shared.lines[0][0])), kColumns = int(sizeof(shared.columns[0]));
    if (B::kBeyond && after_beyond) {
      wait_for_all(shared.k_empty, k);
      if (key >= 0) wait_for_all(shared.v_empty, v), after_beyond = false;
    }
    barrier_wait(&shared.k_empty[k.stage], k.parity ^ 1);
    int bytes = int(sizeof(shared.table[0])) + (shifted ? B::kGroups * kLine : 0);
    if (key >= 0) bytes += int(sizeof(shared.k[0])) + (shifted ? kColumns : 0);
    barrier_expect(full, bytes);
    if (key >= 0) copy_tile(shared.k[k.stage], &p.k, p.whole, full, {key, at.head / p.tiles.heads_of_key, at.batch});
    copy_tile(shared.table[k.stage], &p.table, B::kFeatured || p.whole, full,
              {begin - 1 - p.tiles.offset() + p.clips.left, p.clips.by_head ? at.head : 0, 0});
    if (shifted) {
      const float* const lines = p.sums.lines + std::int64_t{2} * at.head * p.sums.lines_length + (begin - p.sums.first);
#pragma unroll
      for (int x = 0; x < B::kGroups; ++x)
        copy_in_bytes(shared.lines[k.stage][x], lines + std::int64_t{x} * p.sums.lines_length, kLine, full);
      const std::int64_t head = std::int64_t{at.batch} * p.tiles.heads + at.head;
      if (key >= 0) copy_in_bytes(shared.columns[k.stage], p.sums.columns + head * p.sums.columns_length + key, kColumns, full);
    }
    k.next();
  }
  __device__ __forceinline__ void bring_values(const Work& at, int key) {
    std::uint64_t* const full = &shared.v_full[v.stage];
    barrier_wait(&shared.v_empty[v.stage], v.parity ^ 1);
    barrier_expect(full, sizeof(shared.v[0]));
    copy_tile(shared.v[v.stage], &p.v, p.whole_values, full, {key, at.head / p.tiles.heads_of_key, at.batch});
    v.next();
  }
  /// In another size, where all but the last values of the tiles with rows has been.
  __device__ __forceinline__ void bring_beyond(const Work& at, const BeyondRows& beyond) {
    const int key_head = at.head / p.tiles.heads_of_key;
    wait_for_all(shared.k_empty, k);
    for (int x = 0; x <= beyond.count; ++x) {  // the keys one tile ahead of the values
      if (x < beyond.count) {
        barrier_wait(&shared.k_empty[k.stage], k.parity ^ 1);
        barrier_expect(&shared.k_full[k.stage], int(sizeof(typename B::BeyondPanels)));
        copy_tile(shared.beyond_keys(x), &p.beyond_k, p.whole, &shared.k_full[k.stage], {beyond.key(x), key_head, at.batch});
        k.next();
      }
      if (x > 0) {
        barrier_wait(&shared.v_empty[v.stage], v.parity ^ 1);
        barrier_expect(&shared.v_full[v.stage], int(sizeof(typename B::BeyondValues)));
        copy_tile(shared.beyond_values(x - 1), &p.beyond_v, p.whole_values, &shared.v_full[v.stage],
                  {beyond.key(x - 1), key_head, at.batch});
        v.next();
      }
    }
    after_beyond = true;
  }
  __device__ __forceinline__ void run() {
    std::uint32_t q_parity = 1;
    const int all = p.tiles.work();
    for (int number = blockIdx.x;;) {
      const int after = gridDim.x + atomicAdd(p.next, 1);  // asked for early: the answer takes long
      barrier_wait(&shared.q_empty, q_parity);
      q_parity ^= 1;
      shared.work = number < all ? number : -1;
      if (number >= all) {
        barrier_arrive(&shared.q_full);
        return;
      }
      const Work at = work_at(p.tiles, number);
      barrier_expect(&shared.q_full, int(sizeof(shared.q)) + shared.features.kBytes);
      copy_tile(shared.q, &p.q, p.whole, &shared.q_full, at);
      if constexpr (B::kFeatured) copy_in(shared.features.rows, &p.features, &shared.q_full, {0, at.row, 0, at.head, at.batch});
      const TileSpan span = tiles_of(p.tiles, at.row);
      const int with_rows = first_tile_with_rows(p.tiles, at.row, span, p.rows_left);
      for (int n = first_window_block(p.tiles, at.row, span); n < B::kBlocks; ++n) bring(at, block_begin(p.tiles, at.row, span, n), -1);
      const BeyondRows beyond = beyond_rows(p.tiles, span, with_rows);
      for (int j = span.end; j >= (B::kBeyond ? with_rows : span.first); --j) {  // the keys one tile ahead of the values
        if (j > with_rows) {
          bring(at, block_begin(p.tiles, at.row, span, span.end - j + B::kBlocks), (j - 1) * B::kKeys);
        } else if (!B::kBeyond && j > span.first) {
          bring_keys(at, (j - 1) * B::kKeys);
        }
        if (j < span.end) bring_values(at, j * B::kKeys);
      }
      if (B::kBeyond && beyond.count > 0) bring_beyond(at, beyond);
      number = after;
    }
  }
};

}  // namespace phasor::cuda::hopper
