// SPDX-License-Identifier: Apache-2.0
// What the kernels before and after a backward with a table have in common. A block has every so many tiles of one head's queries; its
// eight warps multiply by mma.sync.
#pragma once

#include "cuda/attention/hopper/backward/parameter.cuh"
#include "cuda/attention/hopper/backward/run.hpp"
#include "cuda/attention/hopper/instructions.cuh"
#include "cuda/device.hpp"

namespace phasor::cuda::hopper {

struct TableParameter {
  BackwardParameter of;  // the backward's own; its maps are not read
  InputRows q;
  InputRows table;
  OutputRows dq;
  float* gradient;  // (rows, heads or 1, channels); null: not wanted
  int rows;         // of the gradient, with those that nobody sees
  float table_scale;
};

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
__device__ __forceinline__ uint4* strip_of(const BackwardParameter& p, int tile_number, int near) {
  return p.strips + (std::int64_t{tile_number} * p.near_blocks + near) * (kBlockKeys * T::kQueries / 8);
}

/// 16 bytes of a row, zeros where there are none.
__device__ __forceinline__ uint4 vector_at(const unsigned char* row, bool is_there, int channel, int width) {
  return is_there && channel < width ? *reinterpret_cast<const uint4*>(row + 2 * channel) : uint4{0, 0, 0, 0};
}
/// Lines of the table; behind its rows the first one twice and the last one twice, for sums beyond the clips.
template <class T>
__device__ __forceinline__ void bring_table(typename T::Element (&to)[T::kLines][T::kPitch], const TableParameter& w, int head) {
  constexpr int kVectors = T::kWidth / 8;
  const Clips& c = w.of.clips;
  for (int x = threadIdx.x; x < T::kLines * kVectors; x += T::kThreads) {
    const int line = x / kVectors, channel = x % kVectors * 8;
    const int row = line < c.rows() ? line : line < c.rows() + 2 ? 0 : c.rows() - 1;
    const unsigned char* const from = w.table.row(0, row, c.by_head ? head : 0);
    *reinterpret_cast<uint4*>(&to[line][channel]) = vector_at(from, line < table_lines(c), channel, w.table.width);
  }
}

template <class T, class Shared>
Status launch_table(const char* where, void (*kernel)(TableParameter), TableParameter& w, void* stream) {
  const auto* const function = reinterpret_cast<const void*>(kernel);
  constexpr int kBytes = sizeof(Shared);
  if (Status s = status_of(where, cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes)); !s) return s;
  const KeyTiles& t = w.of.tiles;
  const Grid grid = {static_cast<unsigned>(parts_of(t)), static_cast<unsigned>(t.heads), static_cast<unsigned>(t.batch)};
  return launch(where, {function, grid, T::kThreads, kBytes, stream}, &w);
}

inline TableParameter table_parameter(const Backward& b, const BackwardParameter& p) {
  const Forward& f = b.forward;
  TableParameter w = {};
  w.of = p;
  w.q = input_rows(f.q);
  w.table = input_rows(f.table);
  w.dq = output_rows(b.q);
  w.gradient = b.table;
  w.rows = static_cast<int>(f.table.shape[1]);
  w.table_scale = static_cast<float>(f.table_scale);
  return w;
}

/// body.operator()<TableBody> of the call.
template <class Body>
Status with_table_body(const Backward& b, const KeyTiles& t, const Body& body) {
  const bool half = b.forward.q.dtype == DType::f16;
  if (t.tile_queries == kBackwardWidths[0].queries) {
    return half ? body.template operator()<TableBody<__half, 0>>() : body.template operator()<TableBody<__nv_bfloat16, 0>>();
  }
  return half ? body.template operator()<TableBody<__half, 1>>() : body.template operator()<TableBody<__nv_bfloat16, 1>>();
}

}  // namespace phasor::cuda::hopper
