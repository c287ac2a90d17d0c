// SPDX-License-Identifier: Apache-2.0
// Before a backward with a table: products of queries with its rows, rounded as the forward keeps them, spread out as tiles read them.
#pragma once

#include "cuda/attention/hopper/backward/table/body.cuh"

namespace phasor::cuda::hopper {

template <class T>
struct BeforeShared {
  alignas(16) std::uint16_t table[T::kLines][T::kPitch];
  alignas(16) std::uint16_t products[T::kQueries][T::kLinePitch];
};

/// A warp's 16 queries as the left operand of products, straight from memory.
template <class T>
struct QueryBlocks {
  std::uint32_t of[T::kWidth / 16][4];

  __device__ __forceinline__ QueryBlocks(const TableWork& w, int batch, int head, int row, int lane) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int query = row + lane / 4 + 8 * r;
      const unsigned char* const from = w.q.row(batch, query, head);
#pragma unroll
      for (int c = 0; c < T::kWidth / 8; ++c) {
        const bool is_there = query < w.tiles.queries && 8 * c < w.q.width;
        of[c / 2][c % 2 * 2 + r] = is_there ? *reinterpret_cast<const std::uint32_t*>(from + 16 * c + 4 * (lane % 4)) : 0;
      }
    }
  }
};

template <class T>
__device__ __forceinline__ void multiply(BeforeShared<T>& shared, const TableWork& w, int batch, int head, int row) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int first = warp % T::kQueryWarps * 16;
  const QueryBlocks<T> q(w, batch, head, row + first, lane);
  // Blocks of eight rows, some together so that their products do not wait for each other; those behind the last row are zeros.
  constexpr int kBlocks = T::kLines / 8 / T::kSplits, kTogether = 3;
  static_assert(kBlocks % kTogether == 0);
  const float factor = w.of.clips.factor;
#pragma unroll 1
  for (int n = warp / T::kQueryWarps * kBlocks; n < (warp / T::kQueryWarps + 1) * kBlocks && 8 * n < w.of.clips.rows(); n += kTogether) {
    float product[kTogether][4] = {};
#pragma unroll
    for (int c = 0; c < T::kWidth / 32; ++c) {
#pragma unroll
      for (int x = 0; x < kTogether; ++x) {
        std::uint32_t rows[4];
        load_blocks(rows, shared_address(&shared.table[8 * (n + x) + lane % 8][32 * c + lane / 8 * 8]));
        multiply_blocks<typename T::Element>(product[x], q.of[2 * c], rows[0], rows[1]);
        multiply_blocks<typename T::Element>(product[x], q.of[2 * c + 1], rows[2], rows[3]);
      }
    }
#pragma unroll
    for (int x = 0; x < kTogether; ++x) {
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        *reinterpret_cast<std::uint32_t*>(&shared.products[first + lane / 4 + 8 * r][8 * (n + x) + 2 * (lane % 4)]) =
            halves_of(product[x][2 * r] * factor, product[x][2 * r + 1] * factor);
      }
    }
  }
}

template <class T>
__device__ __forceinline__ std::uint32_t pair_at(const BeforeShared<T>& shared, const Clips& c, int query, int distance) {
  const auto at = [&](int x) { return std::uint32_t{shared.products[query + x][min(max(distance - x, -c.left), c.right) + c.left]}; };
  return at(0) | at(1) << 16;
}
template <class T>
__device__ __forceinline__ void spread(const BeforeShared<T>& shared, const TableWork& w, int tile_number, int tile) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const Clips& c = w.of.clips;
  const Span near = near_blocks(w.tiles, c, tile);
  const int position = tile * T::kQueries + w.tiles.offset();
  for (int block = near.first; block < near.end; ++block) {
    uint4* const to = strip_of<T>(w.of, tile_number, block - near.first);
#pragma unroll 2
    for (int x = warp; x < 8 * T::kQueryWarps; x += T::kWarps) {
      const int sixteen = x / T::kQueryWarps, n = x % T::kQueryWarps;
      const StripPlace at = strip_place(sixteen, n, lane);
      const int distance = block * kBlockKeys + at.key - position - at.query;  // eight keys and eight queries on it is the same
      to[strip_index<T>(sixteen, n, lane)] = {pair_at<T>(shared, c, at.query, distance), pair_at<T>(shared, c, at.query, distance + 8),
                                              pair_at<T>(shared, c, at.query + 8, distance - 8),
                                              pair_at<T>(shared, c, at.query + 8, distance)};
    }
  }
}

template <class T>
__device__ __forceinline__ void less_ends(const BeforeShared<T>& shared, const TableWork& w, const TableBlock& at, int tile) {
  const int query = threadIdx.x;
  if (query >= T::kQueries) return;
  float* const lse = w.lse + w.row_number(at.batch, at.head, tile * T::kQueries + query);
  const std::uint32_t left = shared.products[query][0], right = shared.products[query][w.of.clips.rows() - 1];
  const float2 ends = unpack<__half>(left | right << 16);
  lse[w.of.lse_of_side] = lse[0] - ends.x * w.scale_log2, lse[2 * w.of.lse_of_side] = lse[0] - ends.y * w.scale_log2;
}

template <class T>
__device__ __forceinline__ void make_products(BeforeShared<T>& shared, const TableWork& w, const TableBlock& at) {
  bring_table<T>(shared.table, w, at.head);
  for (int tile = at.part; tile < w.tiles.tiles(); tile += at.parts) {
    __syncthreads();
    multiply<T>(shared, w, at.batch, at.head, tile * T::kQueries);
    __syncthreads();
    prefetch_queries<T>(w, at, tile + at.parts);
    spread<T>(shared, w, w.tile_number(at.batch, at.head, tile), tile);
    less_ends<T>(shared, w, at, tile);
  }
}

}  // namespace phasor::cuda::hopper
