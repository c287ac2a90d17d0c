// SPDX-License-Identifier: Apache-2.0
// Sums of ds by distance, the gradient of a bias: two warps read what the consumers leave in shared memory for dq.
//
// In blocks of 8 x 8 a diagonal is a diagonal of blocks. Tensor cores add the blocks of each: a matrix of zeros and ones keeps key % 8
// apart, so that what is left are 8 rows of numbers; a distance is 8 of them, each a row lower and a column on.
// A thread has every 64th distance of a tile. Queries come from the last to the first, so its sums move on by a tile's queries each time,
// and those that no later tile has are added to the block's slot.
#pragma once

#include "cuda/attention/hopper/backward/body.cuh"

namespace phasor::cuda::hopper {

template <class B>
struct DistanceSummer {
  typename B::Shared& shared;
  const BackwardParameter& p;
  const int thread = threadIdx.x - (128 - B::kSummers);
  const int warp = thread / 32, lane = thread % 32;
  static constexpr int kStep = B::kQueries / 64;  // sums of a thread that a tile completes
  static constexpr int kOpen = B::kKeys / 64;     // that go on
  float open[kOpen] = {};
  int buffer = 0;
  int odd_head = 0;  // as the consumers count

  __device__ __forceinline__ DistanceSummer(typename B::Shared& of, const BackwardParameter& parameter) : shared(of), p(parameter) {}

  __device__ __forceinline__ void meet() const { named_sync(2, B::kSummers); }

  /// A tile's ds along diagonals of blocks, to shared memory.
  __device__ __forceinline__ void sum_blocks() {
    constexpr int kFirst = 1 - B::kKeys / 8;  // block of queries - block of keys
    constexpr std::uint32_t kOne = std::is_same_v<typename B::Element, __half> ? 0x3C00 : 0x3F80;
    const int g = lane / 4, q = lane % 4, row = lane % 8;
    const std::uint32_t ones = (2 * q == g ? kOne : 0) | (2 * q + 1 == g ? kOne << 16 : 0);
    const std::uint32_t ds = shared_address(shared.ds[buffer]) + row * 128;
#pragma unroll 2
    for (int x = warp; x < B::kDiagonals; x += B::kSummers / 32) {
      const int diagonal = x + kFirst, start = max(0, -diagonal), end = min(B::kKeys / 8, B::kQueries / 8 - diagonal);  // of the key blocks
      float sum[4] = {0, 0, 0, 0};
#pragma unroll
      for (int y = 0; y < B::kQueries / 8; y += 4) {
        const int key = min(start + y + lane / 8, end - 1), query = key + diagonal;
        std::uint32_t block[4];
        load_blocks_across(block, ds + query / 8 * int(sizeof(shared.ds[0][0])) + key * 1024 + ((query % 8 ^ row) << 4));
#pragma unroll
        for (int z = 0; z < 4; ++z) {
          if (start + y + z >= end) block[z] = 0;
        }
        small_product<typename B::Element>(sum, ones, ones, block[0], block[1]);
        small_product<typename B::Element>(sum, ones, ones, block[2], block[3]);
      }
      *reinterpret_cast<float2*>(&shared.diagonal[g][8 + 8 * x + 2 * q]) = {sum[0], sum[1]};
    }
  }
  /// A tile's sums; `slot` is that of the distance of its first query and the block's first key. What is complete is added there, all where
  /// the next tile goes on with none of them.
  __device__ __forceinline__ void sum_tile(float* slot, bool last) {
    sum_blocks();
    meet();
    float now[kOpen + kStep];
#pragma unroll
    for (int n = 0; n < kOpen + kStep; ++n) {
      now[n] = n < kStep ? 0 : open[n - kStep];
#pragma unroll
      for (int r = 0; r < 8; ++r) now[n] += shared.diagonal[r][thread + 64 * n + r];
    }
    meet();  // before the next tile's sums of blocks
    float* const to = slot + thread - B::kKeys;
#pragma unroll
    for (int n = 0; n < kOpen + kStep; ++n) {
      if (n >= kOpen || last) {
        if (n > 0 || thread > 0) atomicAdd(to + 64 * n, now[n]);
      } else {
        open[n] = now[n];
      }
    }
#pragma unroll
    for (int n = 0; n < kOpen; ++n) open[n] = last ? 0 : open[n];
  }
  /// What consumers summed in far tiles of a head, their threads one after the other.
  __device__ __forceinline__ void store_far(const KeyWork& at, int head) {
    const int side = warp;
    float* const from = shared.far[odd_head][side];
    float sum = 0;
#pragma unroll
    for (int n = 0; n < 4 * B::kGroups; ++n) sum += from[32 * n + lane], from[32 * n + lane] = 0;
#pragma unroll
    for (int x = 16; x > 0; x /= 2) sum += __shfl_xor_sync(~0u, sum, x);
    const std::int64_t head_number = std::int64_t{at.batch} * p.tiles.heads + head;
    if (lane == 0) p.sums.far[(head_number * p.tiles.blocks() + at.block) * 2 + side] = sum;
    odd_head ^= 1;
  }
  /// The slot is free once the block that had it before is done.
  __device__ __forceinline__ void wait_for_slot(const int* done, const KeyWork& at) const {
    const int slots = slots_of(p.tiles);
    if (at.block >= slots && thread == 0) {
      while (load_acquired(done - slots) == 0) __nanosleep(64);
    }
    meet();
  }
  __device__ __forceinline__ void block(const KeyWork& at) {
    const Windows& w = p.windows;
    int* const done = p.sums.done + (std::int64_t{at.batch} * p.tiles.key_heads() + at.key_head) * p.tiles.blocks() + at.block;
    wait_for_slot(done, at);
    for (Walk walk(p.tiles, at); walk.is_there(); walk.next(), buffer ^= 1) {
      const int row = walk.tile * B::kQueries;
      named_sync(1, B::kMeeting);
      if (far_side(p.tiles, w, at.key(), row) == 0) {
        const std::int64_t head_number = std::int64_t{at.batch} * p.tiles.heads + walk.head;
        float* const slot = p.sums.slots + (head_number * slots_of(p.tiles) + at.block % slots_of(p.tiles)) * w.length;
        const bool last = walk.is_last_of_head() || far_side(p.tiles, w, at.key(), row - B::kQueries) != 0;
        sum_tile(slot + (row - at.key() - w.first), last);
      }
      if (walk.is_last_of_head()) store_far(at, walk.head);
    }
    meet();
    if (thread == 0) store_released(done, 1);
  }
  __device__ __forceinline__ void run() {
    // The margins stay zeros.
    for (int x = thread; x < 8 * B::kDiagonalPitch; x += B::kSummers) (&shared.diagonal[0][0])[x] = 0;
    meet();
    std::uint32_t parity = 0;
    for (;;) {
      barrier_wait(&shared.kv_full, parity);
      parity ^= 1;
      const int number = shared.work;
      __syncwarp();
      if (lane == 0) barrier_arrive(&shared.kv_empty);
      if (number < 0) return;
      block(key_work_at(p.tiles, number));
    }
  }
};

}  // namespace phasor::cuda::hopper
