// SPDX-License-Identifier: Apache-2.0
// What the kernels before and after a backward with a table have in common. A block has every so many tiles of one head's queries; its
// eight warps multiply by mma.sync.
#pragma once

#include <type_traits>

#include "cuda/attention/hopper/backward/table/work.hpp"
#include "cuda/attention/hopper/instructions.cuh"

namespace phasor::cuda::hopper {

template <class Element_, int kOfWidths>
struct TableBody {
  using Element = Element_;
  static constexpr int kWidth = kBackwardWidths[kOfWidths].width, kQueries = kBackwardWidths[kOfWidths].queries;
  static constexpr int kWarps = 8, kThreads = 32 * kWarps;
  /// Rows of a table, and four for sums beyond its clips, in steps of 16.
  static constexpr int kLines = 144;
  static_assert(Clips::kMostRows + 4 <= kLines);
  /// Rows of 16 bytes that follow each other are in other banks.
  static constexpr int kPitch = kWidth + 8, kLinePitch = kLines + 8;
  /// Warps of which each has 16 queries; where there are fewer than eight, the others have other columns, or keys.
  static constexpr int kQueryWarps = kQueries / 16, kSplits = kWarps / kQueryWarps;
};

/// Where a thread of the backward has numbers of a tile's strip: four words, each of two queries that follow each other.
struct StripPlace {
  int query;  // of the tile: of word x those from query + 8 (x / 2) on
  int key;    // of the block of keys: of word x that at key + 8 (x % 2)
};
/// `sixteen`: which 16 keys; `n`: which 16 queries.
__device__ __forceinline__ StripPlace strip_place(int sixteen, int n, int lane) {
  return {16 * n + 2 * (lane % 4), 16 * sixteen + lane / 4};
}
template <class T>
__device__ __forceinline__ int strip_index(int sixteen, int n, int lane) {
  return (sixteen / 4 * T::kQueryWarps + n) * 128 + sixteen % 4 * 32 + lane;
}
template <class T>
__device__ __forceinline__ uint4* strip_of(const TableTiles& p, int tile_number, int near) {
  return p.strips + (std::int64_t{tile_number} * p.near_blocks + near) * (kBlockKeys * T::kQueries / 8);
}

/// A number of 16 bits in the low half. What float16 has no room for goes to the second of two numbers; infinity would make both NaN.
template <class Element>
__device__ __forceinline__ std::uint32_t narrowed(float x) {
  if constexpr (std::is_same_v<Element, __half>) return halves_of(x, 0);
  return pack<Element>(x, 0);
}
/// 16 bytes of a row, zeros where there are none.
__device__ __forceinline__ uint4 vector_at(const unsigned char* row, bool is_there, int channel, int width) {
  return is_there && channel < width ? *reinterpret_cast<const uint4*>(row + 2 * channel) : uint4{0, 0, 0, 0};
}
/// Lines of the table; behind its rows the first one twice and the last one twice, for sums beyond the clips.
template <class T>
__device__ __forceinline__ void bring_table(std::uint16_t (&to)[T::kLines][T::kPitch], const TableWork& w, int head) {
  constexpr int kVectors = T::kWidth / 8;
  const Clips& c = w.of.clips;
  for (int x = threadIdx.x; x < T::kLines * kVectors; x += T::kThreads) {
    const int line = x / kVectors, channel = x % kVectors * 8;
    const int row = line < c.rows() ? line : line < c.rows() + 2 ? 0 : c.rows() - 1;
    const unsigned char* const from = w.table.row(0, row, c.by_head ? head : 0);
    *reinterpret_cast<uint4*>(&to[line][channel]) = vector_at(from, line < table_lines(c), channel, w.table.width);
  }
}

/// To the L2, while another tile is at work: its queries.
template <class T>
__device__ __forceinline__ void prefetch_queries(const TableWork& w, const TableBlock& at, int tile) {
  const int query = threadIdx.x, row = tile * T::kQueries + query;
  if (query < T::kQueries && row < w.tiles.queries) prefetch_bytes(w.q.row(at.batch, row, at.head), 2 * w.q.width);
}

}  // namespace phasor::cuda::hopper
