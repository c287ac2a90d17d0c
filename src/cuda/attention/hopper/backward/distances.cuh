// SPDX-License-Identifier: Apache-2.0
// Sums of ds by distance, the gradient of a bias: two warps read what the consumers leave in shared memory for dq.
//
// In blocks of 8 x 8 a diagonal of ds is a diagonal of blocks, and a distance is 8 sums along one, each a row lower and a column on. Tensor
// cores add the blocks up, by a product with the unit matrix: two diagonals at a time, four of a warp at the same block of keys.
// A diagonal that reaches the end of the tile goes on at its beginning: there it is one of the tile of queries before this one, which comes
// next, and what was summed stays open until then. So a tile completes as many distances as it has queries, and warps have equal work.
#pragma once

#include "cuda/attention/hopper/backward/body.cuh"

namespace phasor::cuda::hopper {

template <class B>
struct DistanceSummer {
  typename B::Shared& shared;
  const BackwardParameter& p;
  const int thread = threadIdx.x - (128 - B::kSummers);
  const int warp = thread / 32, lane = thread % 32;
  static constexpr int kBlocks = B::kQueries / 8, kKeyBlocks = B::kKeys / 8, kAround = B::kAround, kFours = B::kFours;
  /// Of four diagonals: two columns (2 (lane % 4)) of a row (lane / 4) of the sum of their blocks.
  using Four = float[4][2];
  int buffer = 0;
  int odd_head = 0;  // as the consumers count

  __device__ __forceinline__ DistanceSummer(typename B::Shared& of, const BackwardParameter& parameter) : shared(of), p(parameter) {}

  __device__ __forceinline__ void meet() const { named_sync(2, B::kSummers); }

  /// The key block where the first of this warp's n-th four comes to the end of the tile, its query blocks being key block - that; the
  /// others follow one by one.
  __device__ __forceinline__ int end_of(int n) const { return 4 * warp + n * (B::kSummers / 8); }
  /// What is open of a diagonal, for the tile that comes next or the one after it.
  __device__ __forceinline__ float2& open_at(int n, int next, int x) const { return shared.open[n][next - 1][x][thread]; }
  static __device__ __forceinline__ void read(float (&sum)[2], const float2& from) { sum[0] = from.x, sum[1] = from.y; }
  /// Sums of a diagonal, which are complete. The first eight columns of those before stay, behind them.
  __device__ __forceinline__ void put(const float (&sum)[2], int n, int x) const {
    const int place = kBlocks - 1 - end_of(n) - x;
    float2* const to = reinterpret_cast<float2*>(shared.diagonal[lane / 4]) + lane % 4;
    if (place == 0) to[B::kQueries / 2] = to[0];
    to[4 * place] = {sum[0], sum[1]};
  }
  /// What was summed is complete, or open for the tile that comes next; the diagonal goes on.
  __device__ __forceinline__ void end_of_tile(float (&sum)[2], int n, int x, bool complete) const {
    if (complete) {
      put(sum, n, x);
    } else {
      open_at(n, 1, x) = {sum[0], sum[1]};
    }
    if (complete && kAround == 2) {
      read(sum, open_at(n, kAround, x));
    } else {
      sum[0] = sum[1] = 0;
    }
  }
  /// A block of each of the four, at a block of keys.
  __device__ __forceinline__ void load(std::uint32_t (&x)[4], int n, int key) const {
    const int row = lane % 8, query = key - end_of(n) - lane / 8 & kBlocks - 1;
    const std::uint32_t ds = shared_address(shared.ds[buffer]) + row * 128;
    load_blocks_across(x, ds + query / 8 * int(sizeof(shared.ds[0][0])) + ((query & 7 ^ row) << 4) + key * 1024);
  }
  /// Along the warp's n-th four.
  __device__ __forceinline__ void sum_four(int n) const {
    constexpr std::uint32_t kOne = std::is_same_v<typename B::Element, __half> ? 0x3C00 : 0x3F80;
    const std::uint32_t unit = lane % 4 == lane / 8 ? kOne << lane / 4 % 2 * 16 : 0;
    constexpr int kAhead = kFours == 1 ? 2 : 4;  // loads on their way
    std::uint32_t ahead[kAhead][4];
    Four sum;
#pragma unroll
    for (int x = 0; x < kAhead; ++x) load(ahead[x], n, x);
#pragma unroll
    for (int x = 0; x < 4; ++x) read(sum[x], open_at(n, 1, x));
#pragma unroll 1
    for (int first = 0; first < kKeyBlocks; first += 4) {
#pragma unroll
      for (int x = 0; x < 4; ++x) {
        if ((first & kBlocks - 1) == end_of(n)) end_of_tile(sum[x], n, x, first < kBlocks);
        std::uint32_t(&block)[4] = ahead[x % kAhead];
        add_blocks<typename B::Element>(sum[0], sum[1], unit, block[0], block[1]);
        add_blocks<typename B::Element>(sum[2], sum[3], unit, block[2], block[3]);
        load(block, n, first + x + kAhead & kKeyBlocks - 1);
      }
    }
#pragma unroll
    for (int x = 0; x < 4; ++x) open_at(n, kAround, x) = {sum[x][0], sum[x][1]};
  }
  /// What was put, to a slot. Zeros are not added: places outside of a slot have none else.
  __device__ __forceinline__ void add_to_slot(float* slot) const {
    meet();
    float sum[B::kQueries / 64];
#pragma unroll
    for (int n = 0; n < B::kQueries / 64; ++n) {
      sum[n] = 0;
#pragma unroll
      for (int r = 0; r < 8; ++r) sum[n] += shared.diagonal[r][thread + 64 * n + r];
    }
    meet();  // before the next sums are put
#pragma unroll
    for (int n = 0; n < B::kQueries / 64; ++n) {
      if (sum[n] != 0) atomicAdd(slot + thread + 64 * n, sum[n]);
    }
  }
  /// No tile goes on with what is open: it is complete, tile by tile; then zeros, for what the last one left behind.
  __device__ __forceinline__ void close(float* slot) const {
#pragma unroll 1
    for (int next = 1; next <= kAround + 1; ++next) {
#pragma unroll
      for (int i = 0; i < 4 * kFours; ++i) {
        float sum[2] = {0, 0};
        if (next <= kAround) {
          read(sum, open_at(i / 4, next, i % 4));
          open_at(i / 4, next, i % 4) = {0, 0};
        }
        put(sum, i / 4, i % 4);
      }
      add_to_slot(slot - next * B::kQueries);
    }
  }
  /// A tile's sums; `slot` is that of the distance of its first query and the block's first key. Those of eight queries from the first on
  /// are not complete yet.
  __device__ __forceinline__ void sum_tile(float* slot, bool last) const {
#pragma unroll 1  // side by side they need registers that are not there
    for (int n = 0; n < kFours; ++n) sum_four(n);
    add_to_slot(slot + 8);
    if (last) close(slot + 8);
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
    const int slots = p.windows.slots;
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
        float* const slot = p.sums.slots + (head_number * p.windows.slots + at.block % p.windows.slots) * w.length;
        const bool last = walk.is_last_of_head() || far_side(p.tiles, w, at.key(), row - B::kQueries) != 0;
        sum_tile(slot + (row - at.key() - w.first), last);
      }
      if (walk.is_last_of_head()) store_far(at, walk.head);
    }
    meet();
    if (thread == 0) store_released(done, 1);
  }
  __device__ __forceinline__ void run() {
    for (int x = thread; x < 8 * B::kDiagonalPitch; x += B::kSummers) (&shared.diagonal[0][0])[x] = 0;
    for (int x = 0; x < kFours * kAround * 4; ++x) (&shared.open[0][0][0][0])[x * B::kSummers + thread] = {0, 0};
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
