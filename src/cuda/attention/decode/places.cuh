// SPDX-License-Identifier: Apache-2.0
// Where a split's keys and values lie, and how they come to shared memory. A warp finds the places of the keys that it brings, and no
// others.
#pragma once

#include "cuda/attention/decode/instructions.cuh"
#include "cuda/attention/decode/shape.cuh"

namespace phasor::cuda::decode {

/// Keys of a split that a warp brings, and of them a lane's.
constexpr int kWarpPlaces = kSplit / kWarps;
constexpr int kLanePlaces = kWarpPlaces / 32;

/// Blocks of pages, all asked for before any is looked at.
template <class T, int kCount>
__device__ inline void load_blocks(const void* table, const unsigned (&pages)[kCount], int64_t (&blocks)[kCount]) {
#pragma unroll
  for (int n = 0; n < kCount; ++n) blocks[n] = static_cast<const T*>(table)[pages[n]];
}

/// Blocks of a lane's keys, and which tokens of them they are.
struct LaneKeys {
  int64_t blocks[kLanePlaces];
  unsigned tokens[kLanePlaces];
};
/// Behind the last key there is the last again: nobody sees it, and it is a number where that is.
template <class S>
__device__ __forceinline__ LaneKeys ask_for_blocks(const DecodeWork& work, const Block& block) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  LaneKeys keys;
  unsigned pages[kLanePlaces];
#pragma unroll
  for (int n = 0; n < kLanePlaces; ++n) {
    const int own = lane + n * 32;
    const int number = own / S::kKeys * S::kTile + warp * S::kKeys + own % S::kKeys;
    const auto key = static_cast<unsigned>(block.first + (number < block.end ? number : block.end - 1));
    pages[n] = work.page_shift >= 0 ? key >> work.page_shift : key / static_cast<unsigned>(work.page_size);
    keys.tokens[n] = key - pages[n] * static_cast<unsigned>(work.page_size);
    keys.blocks[n] = block.batch;
  }
  const auto* const table = static_cast<const std::byte*>(work.blocks.data) + block.batch * work.pages * work.blocks.bytes;
  if (work.blocks.size > 0 && work.blocks.bytes == 4) load_blocks<std::int32_t>(table, pages, keys.blocks);
  if (work.blocks.size > 0 && work.blocks.bytes == 8) load_blocks<int64_t>(table, pages, keys.blocks);
  return keys;
}
/// Places of a warp's keys, in bytes from where those of the head begin: of keys, then (where they are others) of values, kSplit numbers
/// behind.
__device__ __forceinline__ void put_places(const DecodeWork& work, const LaneKeys& keys, int64_t* places) {
  const bool same = has_same_strides(work);
  int64_t* const own = places + static_cast<int>(threadIdx.x) / 32 * kWarpPlaces + static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int n = 0; n < kLanePlaces; ++n) {
    const int64_t token = keys.tokens[n];
    own[n * 32] = keys.blocks[n] * work.k.strides[0] + token * work.k.strides[1];
    if (!same) own[n * 32 + kSplit] = keys.blocks[n] * work.v.strides[0] + token * work.v.strides[1];
  }
}

/// What a lane needs to bring its share of tiles: the lanes that have one vector each of a key lie side by side.
struct Bringer {
  const std::byte* k;  // where the head's keys begin, and the lane's vector in each
  const std::byte* v;
  const int64_t* places;  // of the lane's first key
  int values;             // places of values behind those of keys
  std::uint32_t to_keys;  // in a stage
  std::uint32_t to_values;
};
template <class S>
__device__ __forceinline__ Bringer bringer_of(const DecodeWork& work, const Block& block, const int64_t* places) {
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int row = static_cast<int>(threadIdx.x) % 32 / S::kVectors;
  const int vector = static_cast<int>(threadIdx.x) % S::kVectors;
  Bringer bringer;
  bringer.k = work.k.data + block.key_head * work.k.strides[2] + vector * 16;
  bringer.v = work.v.data + block.key_head * work.v.strides[2] + vector * 16;
  bringer.places = places + warp * kWarpPlaces + row;
  bringer.values = has_same_strides(work) ? 0 : kSplit;
  bringer.to_keys = static_cast<std::uint32_t>(warp * S::kSideBytes) + vector_at<S, false>(row, vector);
  bringer.to_values = static_cast<std::uint32_t>((kWarps + warp) * S::kSideBytes) + vector_at<S, true>(row, vector);
  return bringer;
}

/// The warp's keys and values of a tile.
template <class S>
__device__ __forceinline__ void bring_tile(const Bringer& bringer, int tile, std::uint32_t stage) {
  constexpr int kRows = 32 / S::kVectors;  // that a warp brings by one instruction
  constexpr int kEach = S::kKeys / kRows;
  constexpr int kAtOnce = kEach < 4 ? kEach : 4;  // places that are known before the first is used
  const int64_t* const places = bringer.places + tile * S::kKeys;
  const std::uint32_t to_keys = stage + bringer.to_keys;
  const std::uint32_t to_values = stage + bringer.to_values;
#pragma unroll
  for (int first = 0; first < kEach; first += kAtOnce) {
    int64_t keys[kAtOnce];
    int64_t values[kAtOnce];
#pragma unroll
    for (int n = 0; n < kAtOnce; ++n) {
      keys[n] = places[(first + n) * kRows];
      values[n] = places[(first + n) * kRows + bringer.values];
    }
#pragma unroll
    for (int n = 0; n < kAtOnce; ++n) {
      const int row = (first + n) * kRows;
      const auto below = static_cast<std::uint32_t>(row * S::kRowBytes);
      copy_16<S::kRowBytes>((to_keys ^ turned<S, false>(row) * 16) + below, bringer.k + keys[n]);
      copy_16<S::kRowBytes>((to_values ^ turned<S, true>(row) * 16) + below, bringer.v + values[n]);
    }
  }
}

}  // namespace phasor::cuda::decode
