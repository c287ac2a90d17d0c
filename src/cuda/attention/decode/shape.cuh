// SPDX-License-Identifier: Apache-2.0
// The numbers of a decoding kernel, how what it has in shared memory is arranged, and what a block of it is of.
#pragma once

#include "cuda/attention/base2.hpp"
#include "cuda/attention/decode/tuning.hpp"
#include "cuda/attention/decode/work.hpp"
#include "job/element.hpp"

namespace phasor::cuda::decode {

constexpr int kWarps = kThreads / 32;

/// A kernel's numbers, all known when it is compiled. Rows (queries and heads) are columns of its products, eight to a tile: keys and
/// values come as the other factor, so that few rows are few products. A warp has kColumns such tiles; kTeam warps have the same keys, each
/// other rows.
template <Storage kStorage_, int kWidth_, int kColumns_, int kTeam_>
struct Shape {
  static constexpr Storage kStorage = kStorage_;
  static constexpr int kWidth = kWidth_;
  static constexpr int kColumns = kColumns_;
  static constexpr int kTeam = kTeam_;
  static constexpr bool kBrain = kStorage == Storage::bf16;
  static constexpr bool kBytes = kStorage == Storage::f8_e4m3 || kStorage == Storage::f8_e5m2;
  static constexpr bool kE5m2 = kStorage == Storage::f8_e5m2;
  static constexpr int kWarpRows = 8 * kColumns;
  static constexpr int kRows = kWarpRows * kTeam;
  static constexpr int kParts = kWarps / kTeam;  // of a tile's keys
  static constexpr int kGroups = kTeam > 1 || kColumns > 1 || kWidth > 128 ? 1 : kBytes ? kGroups8 : kGroups16;
  static constexpr int kKeys = 16 * kGroups;    // whose scores a warp makes at a time, and which it brings of each tile
  static constexpr int kTile = kKeys * kWarps;  // of the block, in a stage
  static constexpr int kRowBytes = kWidth * (kBytes ? 1 : 2);
  static constexpr int kVectors = kRowBytes / 16;       // of a key
  static constexpr int kSideBytes = kKeys * kRowBytes;  // of the keys, or of the values, that a warp brings
  static constexpr int kStageBytes = 2 * kWarps * kSideBytes;
  static constexpr int kStages = kWidth > 128 ? (kBytes ? 3 : 2) : kBytes ? kStages8 : kStages16;
  static constexpr int kBlocks = kTeam > 1 || kColumns > 1 || kWidth > 128 ? 1 : kBytes ? kBlocks8 : kBlocks16;
  static constexpr int kDepth = kWidth / 16;                      // products over channels, and tiles of channels of what comes out
  static constexpr bool kHoldsQueries = kDepth * kColumns <= 8;   // in registers
  static constexpr int kQueryBytes = kRows * kWidth * 2;          // of one of q's two parts
  static constexpr int kOutEach = kWidth / 8 + (kBytes ? 2 : 0);  // where warps are made one: channels of a thread of 8 bits, and a gap
  static constexpr int kOutRow = 8 * kOutEach + 4;
  static constexpr int kPartialBytes = kParts * kRows * (kOutRow + 2) * 4;
  static constexpr int kFirstBytes = kStages * kStageBytes > kPartialBytes ? kStages* kStageBytes : kPartialBytes;
  static_assert(kSplit % kTile == 0);
};

/// A row of a block, in shared memory: most scores want no more of it than a factor.
struct __align__(32) Row {
  const float* diagonal;  // of its biases; null: there is none
  int query;              // those that are not there: the number of queries
  float far;              // the bias beyond far_left
  float power;            // by which q was divided
};

/// What a block has in shared memory, in this order: stages (later what warps found), q's parts, its rows, ranges of its keys, places of
/// keys and, where values lie otherwise, of values.
constexpr int kWayBytes = 32;
template <class S>
struct Room {
  static constexpr int kQueries = S::kFirstBytes;
  PHASOR_HD static constexpr int rows(bool split_queries) { return kQueries + (split_queries ? 2 : 1) * S::kQueryBytes; }
  PHASOR_HD static constexpr int ways(bool split_queries) { return rows(split_queries) + S::kRows * static_cast<int>(sizeof(Row)); }
  PHASOR_HD static constexpr int places(bool split_queries) { return ways(split_queries) + kWayBytes; }
  PHASOR_HD static constexpr int bytes(bool split_queries, bool same_strides) {
    return places(split_queries) + (same_strides ? 1 : 2) * kSplit * 8;
  }
};
PHASOR_HD inline bool splits_queries(const DecodeWork& work) { return work.q.dtype == DType::f32; }
PHASOR_HD inline bool has_same_strides(const DecodeWork& work) {
  const auto& k = work.k.strides;
  const auto& v = work.v.strides;
  return k[0] == v[0] && k[1] == v[1] && k[2] == v[2];
}

/// Vectors of a row change places, so that those that are read together lie in different banks: vector v of a row lies at v ^ turned(row).
/// What it is for a sum of different bits is the exclusive or of what it is for each. So addresses of a lane differ by constants from one
/// another, exclusively or'ed: rows begin at multiples of their bytes, and the memory of a block at one of kAlignment.
template <class S, bool kValues>
__device__ constexpr int turned(int row) {
  if constexpr (!S::kBytes) return row & 7;
  if constexpr (S::kVectors < 8) return 0;
  return kValues ? row & 6 : (row & 1) << 2;
}
/// Where vector `vector` of row `row` lies, from the first row.
template <class S, bool kValues>
__device__ constexpr std::uint32_t vector_at(int row, int vector) {
  return static_cast<std::uint32_t>(row * S::kRowBytes + (vector ^ turned<S, kValues>(row)) * 16);
}
constexpr int kAlignment = 1024;

/// The channel that is number n of q in shared memory: of 8 bits, a thread's 16 bytes are four steps of a product. Of a sum of different
/// bits it is the sum of what it is for each.
template <class S>
__device__ inline int query_channel(int n) {
  if constexpr (!S::kBytes) return n;
  const int step = n / 16 % 4;
  const int k = n % 16;
  return n / 64 * 64 + k % 8 / 2 * 16 + step * 4 + k / 8 * 2 + k % 2;
}
/// Where warps lay what they found of a channel: of 8 bits, a thread has kWidth / 8 channels side by side, with a gap for other banks.
template <class S>
__device__ inline int out_place(int channel) {
  return S::kBytes ? channel + channel / (S::kWidth / 8) * 2 : channel;
}

/// What a block is of. Positions and keys are below 2^30.
struct Block {
  int batch;
  int key_head;
  int split;
  int first_row;  // of the rows that share the key head
  int keys;       // of the sequence
  int first;      // key of the split
  int first_tile;
  int end_tile;
  int end;  // keys of the split that are there
};

/// The block that is number x of (splits, key heads, chunks of rows) of a sequence: heads of the same keys run beside each other, since
/// what they read lies side by side.
template <class S>
__device__ inline bool find_block(const DecodeWork& work, unsigned x, unsigned batch, Block& block) {
  const unsigned chunks = static_cast<unsigned>(rows_of(work) + S::kRows - 1) / S::kRows;
  const unsigned rest = chunks == 1 ? x : x / chunks;
  block.first_row = static_cast<int>(x - rest * chunks) * S::kRows;
  block.split = static_cast<int>(rest / static_cast<unsigned>(work.key_heads));
  block.key_head = static_cast<int>(rest) - block.split * work.key_heads;
  block.batch = static_cast<int>(batch);
  block.keys = static_cast<int>(job::keys_of(work.lengths, block.batch, work.room));
  block.first = block.split * kSplit;
  const KeyRange seen = seen_keys(work, block.keys);
  const int64_t first = seen.first > block.first ? seen.first - block.first : 0;
  const int64_t end = (seen.end < block.first + kSplit ? seen.end : block.first + kSplit) - block.first;
  if (end <= first) return false;
  block.first_tile = static_cast<int>(first) / S::kTile;
  block.end_tile = (static_cast<int>(end) + S::kTile - 1) / S::kTile;
  block.end = block.keys - block.first < kSplit ? block.keys - block.first : kSplit;
  return true;
}

}  // namespace phasor::cuda::decode
