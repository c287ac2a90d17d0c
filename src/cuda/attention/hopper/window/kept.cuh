// SPDX-License-Identifier: Apache-2.0
// Products of queries with rows of a table on their way from one place of the accumulators to another: kept as float16 in a ring of blocks,
// a row for each query, written where the product has them and read where the score needs them.
#pragma once

#include "cuda/attention/hopper/window/body.cuh"

namespace phasor::cuda::hopper {

/// Of one thread. Rows are written and read by the same warp.
template <class B>
struct Kept {
  std::uint32_t writes;                     // where this thread stores a row of eight, in the first block
  std::uint32_t reads;                      // the row of the thread's first query; the other is eight rows further on
  int shift;                                // of the first query, less the thread's first column; the other's is eight more
  int place = (B::kBlocks - 1) * B::kKeys;  // of the block that this tile begins with

  __device__ __forceinline__ Kept(typename B::Shared& shared, int group) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
    writes = shared_address(shared.kept[64 * group + 16 * warp + lane % 16]) + lane / 16 * 16;
    reads = shared_address(shared.kept[64 * group + 16 * warp + lane / 4]);
    shift = 16 * (lane / 4) + 2 * warp - 2 * (lane % 4);
  }
  __device__ __forceinline__ void begin() { place = (B::kBlocks - 1) * B::kKeys; }
  /// Products with block n of those that the first tile reads, or in the place of the one that this tile began with.
  __device__ __forceinline__ void write(const float (&z)[B::kKeys / 2], int at, float factor) const {
#pragma unroll
    for (int c = 0; c < B::kKeys / 8; c += 2) {
      std::uint32_t x[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) x[i] = halves_of(z[4 * c + 2 * i] * factor, z[4 * c + 2 * i + 1] * factor);
      store_blocks(writes + 2 * at + 16 * c, x[0], x[1], x[2], x[3]);
    }
    __syncwarp();
  }
  /// To the tile before.
  __device__ __forceinline__ void next() { place = place == 0 ? (B::kBlocks - 1) * B::kKeys : place - B::kKeys; }

  /// s = this tile's.
  __device__ __forceinline__ void read(float (&s)[B::kKeys / 2]) const {
    const int first = place - shift;
    const auto at = [&](int x) { return reads + 2 * min(unsigned(x), unsigned(x + B::kKept)); };  // below 0: from the ring's end
    std::uint32_t before = at(first - 8);
#pragma unroll
    for (int c = 0; c < B::kKeys / 8; ++c) {
      const std::uint32_t now = at(first + 8 * c);
      const float2 a = halves_at(now), b = halves_at(before + 8 * 2 * B::kPitch);
      s[4 * c] = a.x, s[4 * c + 1] = a.y;
      s[4 * c + 2] = b.x, s[4 * c + 3] = b.y;
      before = now;
    }
  }
};

}  // namespace phasor::cuda::hopper
