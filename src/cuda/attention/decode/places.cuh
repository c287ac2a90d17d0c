// SPDX-License-Identifier: Apache-2.0
// Where a split's keys and values lie, and how they come to shared memory.
#pragma once

#include "cuda/attention/decode/instructions.cuh"
#include "cuda/attention/decode/shape.cuh"

namespace phasor::cuda::decode {

/// Where a key and its value lie.
struct __align__(16) Place {
  const std::byte* k;
  const std::byte* v;
};
/// Blocks of pages, all asked for before any is looked at.
template <class T, int kCount>
__device__ inline void load_blocks(const void* table, const unsigned (&pages)[kCount], int64_t (&blocks)[kCount]) {
#pragma unroll
  for (int n = 0; n < kCount; ++n) blocks[n] = static_cast<const T*>(table)[pages[n]];
}

/// Places of the split's keys. Behind the last there is the last again: nobody sees it, and it is a number where that is.
__device__ inline void find_places(const DecodeWork& work, const Block& block, Place* places) {
  constexpr int kEach = kSplit / kThreads;
  unsigned pages[kEach];
  int64_t tokens[kEach];
  int64_t blocks[kEach];
#pragma unroll
  for (int n = 0; n < kEach; ++n) {
    const int number = static_cast<int>(threadIdx.x) + n * kThreads;
    const auto key = static_cast<unsigned>(block.first) + static_cast<unsigned>(number < block.end ? number : block.end - 1);
    pages[n] = work.page_shift >= 0 ? key >> work.page_shift : key / static_cast<unsigned>(work.page_size);
    tokens[n] = static_cast<int64_t>(key - pages[n] * static_cast<unsigned>(work.page_size));
    blocks[n] = block.batch;
  }
  const auto* const table = static_cast<const std::byte*>(work.blocks.data) + block.batch * work.pages * work.blocks.bytes;
  if (work.blocks.size > 0 && work.blocks.bytes == 4) load_blocks<std::int32_t>(table, pages, blocks);
  if (work.blocks.size > 0 && work.blocks.bytes == 8) load_blocks<int64_t>(table, pages, blocks);
#pragma unroll
  for (int n = 0; n < kEach; ++n) {
    places[threadIdx.x + n * kThreads] = {
        work.k.data + block.key_head * work.k.strides[2] + blocks[n] * work.k.strides[0] + tokens[n] * work.k.strides[1],
        work.v.data + block.key_head * work.v.strides[2] + blocks[n] * work.v.strides[0] + tokens[n] * work.v.strides[1]};
  }
}

template <class S>
__device__ inline void bring_tile(const Place* places, int tile, std::uint32_t stage) {
  constexpr int kTogether = kThreads / S::kVectors;  // rows: a multiple of 8 or 4, or those of a swizzle's period
  const int vector = static_cast<int>(threadIdx.x) % S::kVectors;
#pragma unroll
  for (int n = 0; n < kTile / kTogether; ++n) {
    const int row = static_cast<int>(threadIdx.x) / S::kVectors + n * kTogether;
    const Place place = places[tile * kTile + row];
    const std::uint32_t to = stage + static_cast<std::uint32_t>(row * S::kRowBytes);
    copy_16(to + swizzled<S, false>(row, vector) * 16, place.k + vector * 16);
    copy_16(to + kTile * S::kRowBytes + swizzled<S, true>(row, vector) * 16, place.v + vector * 16);
  }
}

}  // namespace phasor::cuda::decode
