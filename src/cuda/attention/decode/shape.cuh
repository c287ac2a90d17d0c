// SPDX-License-Identifier: Apache-2.0
// The numbers of a decoding kernel, how what it has in shared memory is arranged, and what a block of it is of.
#pragma once

#include "cuda/attention/base2.hpp"
#include "cuda/attention/decode/work.hpp"
#include "job/element.hpp"

namespace phasor::cuda::decode {

constexpr int kWarps = kThreads / 32;

/// A kernel's numbers, all known when it is compiled.
template <Storage kStorage_, int kWidth_, int kRowTiles_>
struct Shape {
  static constexpr Storage kStorage = kStorage_;
  static constexpr int kWidth = kWidth_;
  static constexpr int kRowTiles = kRowTiles_;
  static constexpr bool kBrain = kStorage == Storage::bf16;
  static constexpr bool kBytes = kStorage == Storage::f8_e4m3 || kStorage == Storage::f8_e5m2;
  static constexpr bool kE5m2 = kStorage == Storage::f8_e5m2;
  static constexpr int kRows = 16 * kRowTiles;
  static constexpr int kRowBytes = kWidth * (kBytes ? 1 : 2);
  static constexpr int kVectors = kRowBytes / 16;  // of a row
  static constexpr int kStageBytes = 2 * kTile * kRowBytes;
  static constexpr int kStages = kBytes ? 3 : kStageBytes <= 16384 ? 4 : kStageBytes <= 32768 ? 3 : 2;
  static constexpr int kBlocks = kBytes && kWidth <= 128 && kRowTiles == 1 ? 3 : 1;  // of a multiprocessor, at least
  static constexpr int kKeyParts = kWarps / kRowTiles;                               // of a stage
  static constexpr int kPartKeys = kTile / kKeyParts;                                // of a warp
  static constexpr int kSteps = kWidth / 16;                                         // of a product over channels
  static constexpr int kValueTiles = kWidth / 8;                                     // of a product's channels
  static constexpr int kQueryBytes = kRows * kWidth * 2;                             // of one of q's two parts
  static constexpr int kPlaceBytes = kSplit * 16;
  static constexpr int kOutRow = kWidth + 4;
  static constexpr int kSharedBytes = kStages * kStageBytes + 2 * kQueryBytes + kPlaceBytes;
  static_assert(kKeyParts * kRows * (kOutRow + 2) * 4 <= kStages * kStageBytes, "what warps found lies where stages were");
};

/// Vectors of a row change places, so that those that are read together lie in different banks.
template <class S, bool kValues>
__device__ inline int swizzled(int row, int vector) {
  if constexpr (!S::kBytes) return vector ^ (row & 7);
  if constexpr (S::kVectors < 8) return vector;
  return vector ^ (kValues ? row & 6 : (row & 1) << 2);
}

/// The channel that is number n of q in shared memory: of 8 bits, a thread's 16 bytes are four steps of a product.
template <class S>
__device__ inline int query_channel(int n) {
  if constexpr (!S::kBytes) return n;
  const int step = n / 16 % 4;
  const int k = n % 16;
  return n / 64 * 64 + k % 8 / 2 * 16 + step * 4 + k / 8 * 2 + k % 2;
}
/// The channel of a value in column `column` of tile `tile`.
template <class S>
__device__ inline int value_channel(int tile, int column) {
  return S::kBytes ? column * S::kValueTiles + tile : tile * 8 + column;
}

/// What a block is of.
struct Block {
  int batch;
  int key_head;
  int split;
  int first_row;  // of the rows that share the key head
  int64_t keys;   // of the sequence
  int64_t first;  // key of the split
  int first_tile;
  int end_tile;
  int end;  // keys of the split that are there
};

template <class S>
__device__ inline bool find_block(const DecodeWork& work, Block& block) {
  const int chunks = (rows_of(work) + S::kRows - 1) / S::kRows;
  block.split = static_cast<int>(blockIdx.x) / chunks;
  block.first_row = static_cast<int>(blockIdx.x) % chunks * S::kRows;
  block.key_head = static_cast<int>(blockIdx.y);
  block.batch = static_cast<int>(blockIdx.z);
  block.keys = job::keys_of(work.lengths, block.batch, work.room);
  block.first = int64_t{block.split} * kSplit;
  const KeyRange seen = seen_keys(work, block.keys);
  const int64_t first = seen.first > block.first ? seen.first - block.first : 0;
  const int64_t end = (seen.end < block.first + kSplit ? seen.end : block.first + kSplit) - block.first;
  if (end <= first) return false;
  block.first_tile = static_cast<int>(first) / kTile;
  block.end_tile = (static_cast<int>(end) + kTile - 1) / kTile;
  block.end = static_cast<int>(block.keys - block.first < kSplit ? block.keys - block.first : kSplit);
  return true;
}

}  // namespace phasor::cuda::decode
