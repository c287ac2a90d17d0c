// SPDX-License-Identifier: Apache-2.0
// Before a backward with a table: products of queries with its rows, rounded as the forward keeps them, spread out as tiles read them.
#include "cuda/attention/hopper/backward/table.cuh"
#include "cuda/attention/hopper/backward/table.hpp"

namespace phasor::cuda::hopper {
namespace {

template <class T>
struct BeforeShared {
  alignas(16) typename T::Element table[T::kLines][T::kPitch];
  alignas(16) __half products[T::kQueries][T::kLinePitch];
};

/// A warp's 16 queries as the left operand of products, straight from memory.
template <class T>
struct QueryBlocks {
  std::uint32_t of[T::kWidth / 16][4];

  __device__ __forceinline__ QueryBlocks(const TableParameter& w, int batch, int head, int row, int lane) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int query = row + lane / 4 + 8 * r;
      const unsigned char* const from = w.q.row(batch, query, head);
#pragma unroll
      for (int c = 0; c < T::kWidth / 8; ++c) {
        const bool is_there = query < w.of.tiles.queries && 8 * c < w.q.width;
        of[c / 2][c % 2 * 2 + r] = is_there ? *reinterpret_cast<const std::uint32_t*>(from + 16 * c + 4 * (lane % 4)) : 0;
      }
    }
  }
};

template <class T>
__device__ __forceinline__ void multiply(BeforeShared<T>& shared, const TableParameter& w, int batch, int head, int row) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int first = warp % T::kQueryWarps * 16;
  const QueryBlocks<T> q(w, batch, head, row + first, lane);
  constexpr int kBlocks = T::kLines / 8 / T::kSplits;  // of eight rows
#pragma unroll 1
  for (int n = warp / T::kQueryWarps * kBlocks; n < (warp / T::kQueryWarps + 1) * kBlocks && 8 * n < w.of.clips.rows(); ++n) {
    float product[4] = {0, 0, 0, 0};
#pragma unroll
    for (int c = 0; c < T::kWidth / 32; ++c) {
      std::uint32_t rows[4];
      load_blocks(rows, shared_address(&shared.table[8 * n + lane % 8][32 * c + lane / 8 * 8]));
      multiply_blocks<typename T::Element>(product, q.of[2 * c], rows[0], rows[1]);
      multiply_blocks<typename T::Element>(product, q.of[2 * c + 1], rows[2], rows[3]);
    }
    const float factor = w.of.clips.factor;
    const int column = 8 * n + 2 * (lane % 4);
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      *reinterpret_cast<std::uint32_t*>(&shared.products[first + lane / 4 + 8 * r][column]) =
          halves_of(product[2 * r] * factor, product[2 * r + 1] * factor);
    }
  }
}

template <class T>
__device__ __forceinline__ std::uint32_t pair_at(const BeforeShared<T>& shared, const Clips& c, int query, int distance) {
  const auto at = [&](int x) {
    return std::uint32_t{__half_as_ushort(shared.products[query + x][min(max(distance - x, -c.left), c.right) + c.left])};
  };
  return at(0) | at(1) << 16;
}
template <class T>
__device__ __forceinline__ void spread(const BeforeShared<T>& shared, const TableParameter& w, int tile_number, int tile) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const Clips& c = w.of.clips;
  const Span near = near_blocks(w.of.tiles, c, tile);
  const int position = tile * T::kQueries + w.of.tiles.offset();
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
__global__ void __launch_bounds__(T::kThreads) make_products(const __grid_constant__ TableParameter w) {
  extern __shared__ __align__(16) unsigned char memory[];
  auto& shared = *reinterpret_cast<BeforeShared<T>*>(memory);
  const int head = blockIdx.y, batch = blockIdx.z;
  bring_table<T>(shared.table, w, head);
  for (int tile = blockIdx.x; tile < w.of.tiles.tiles(); tile += gridDim.x) {
    __syncthreads();
    multiply<T>(shared, w, batch, head, tile * T::kQueries);
    __syncthreads();
    spread<T>(shared, w, w.of.tile_number(batch, head, tile), tile);
    if (threadIdx.x < T::kQueries) {
      float* const lse = const_cast<float*>(w.of.lse) + w.of.row_number(batch, head, tile * T::kQueries + int(threadIdx.x));
      const __half* const of = shared.products[threadIdx.x];
      lse[w.of.lse_of_side] = *lse - __half2float(of[0]) * w.of.scale_log2;
      lse[2 * w.of.lse_of_side] = *lse - __half2float(of[w.of.clips.rows() - 1]) * w.of.scale_log2;
    }
  }
}

}  // namespace

Status make_strips(const char* where, const Backward& b, const BackwardParameter& p, void* stream) {
  TableParameter w = table_parameter(b, p);
  return with_table_body(b, p.tiles, [&]<class T>() { return launch_table<T, BeforeShared<T>>(where, &make_products<T>, w, stream); });
}

}  // namespace phasor::cuda::hopper
