// SPDX-License-Identifier: Apache-2.0
#include "cuda/attention/hopper/backward/rows.hpp"

#include <cmath>

#include "cuda/attention/base2.hpp"
#include "cuda/attention/hopper/backward/work.hpp"
#include "cuda/attention/hopper/instructions.cuh"
#include "cuda/device.hpp"

namespace phasor::cuda::hopper {
namespace {

constexpr unsigned kThreads = 256;

struct RowsWork {
  KeyTiles tiles;
  InputRows out;
  InputRows gradient;
  int width;
  bool half;  // f16
  const float* lse;
  std::int64_t lse_strides[3];
  const float* lse_gradient;
  std::int64_t lse_gradient_strides[3];
  float* lse_to;
  float* delta_to;
};

template <class Element>
__device__ float dot(const uint4& a, const uint4& b) {
  float sum = 0;
  const std::uint32_t x[4] = {a.x, a.y, a.z, a.w}, y[4] = {b.x, b.y, b.z, b.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float2 p = unpack<Element>(x[i]), q = unpack<Element>(y[i]);
    sum = fmaf(p.x, q.x, sum), sum = fmaf(p.y, q.y, sum);
  }
  return sum;
}

/// Sixteen threads have a row. Where nothing is seen, its weights and their gradients are zeros.
__global__ void __launch_bounds__(kThreads) prepare_rows(const __grid_constant__ RowsWork w) {
  const int lane = threadIdx.x % 16;
  const int row = blockIdx.x * (kThreads / 16) + threadIdx.x / 16;
  const int head = blockIdx.y, batch = blockIdx.z;
  if (row >= w.tiles.rows()) return;  // a multiple of what a warp has
  const bool is_there = row < w.tiles.queries;
  const std::int64_t number = (std::int64_t{batch} * w.tiles.heads + head) * w.tiles.rows() + row;
  float sum = 0;
  if (is_there && 8 * lane < w.width) {
    const auto at = [&](const InputRows& x) { return *reinterpret_cast<const uint4*>(x.row(batch, row, head) + 16 * lane); };
    const uint4 out = at(w.out), gradient = at(w.gradient);
    sum = w.half ? dot<__half>(out, gradient) : dot<__nv_bfloat16>(out, gradient);
  }
#pragma unroll
  for (int x = 8; x > 0; x /= 2) sum += __shfl_xor_sync(~0u, sum, x);
  if (lane != 0) return;
  float lse = INFINITY;
  if (is_there) lse = w.lse[batch * w.lse_strides[0] + row * w.lse_strides[1] + head * w.lse_strides[2]];
  const bool seen = is_there && lse != -INFINITY;
  if (seen && w.lse_gradient != nullptr) {
    const std::int64_t* const s = w.lse_gradient_strides;
    sum -= w.lse_gradient[batch * s[0] + row * s[1] + head * s[2]];
  }
  w.lse_to[number] = seen ? lse * kLog2E : INFINITY;
  w.delta_to[number] = seen ? sum : 0;
}

struct WindowsWork {
  Windows to;
  const float* diagonal;
  std::int64_t of_head;
  int first_distance;
  int last_distance;
  int offset;
};
/// In powers of 2, as the exponents that it is added to.
__device__ float value_at(const WindowsWork& w, int head, int distance) {
  const int r = min(max(distance, w.first_distance), w.last_distance);
  return w.diagonal[head * w.of_head + r - w.first_distance] * kLog2E;
}
/// A thread per value; row - key grows with the distance.
__global__ void __launch_bounds__(kThreads) fill_key_windows(const __grid_constant__ WindowsWork w) {
  const int x = blockIdx.x * kThreads + threadIdx.x;
  const int head = blockIdx.y;
  if (x < 2) const_cast<float*>(w.to.far)[head * w.to.far_of_head + x] = value_at(w, head, x == 0 ? w.to.far_left : -w.to.far_right);
  if (x >= w.to.length) return;
  const int distance = w.offset + w.to.first + x;
  float* const values = const_cast<float*>(w.to.values) + head * w.to.of_head;
  values[x] = value_at(w, head, distance);
  values[w.to.length + x] = value_at(w, head, distance + 1);
}

struct QueriesWork {
  KeyTiles tiles;
  const float4* from;  // BackwardParameter::dq
  OutputRows to;
  float scale;
  bool half;
  bool wide;  // halves of a tile are of channels, not of queries
};
/// A half of a tile: 64 rows of 64 channels, transposed in shared memory so that rows are written 16 bytes at a time.
__global__ void __launch_bounds__(128) store_queries(const __grid_constant__ QueriesWork w) {
  __shared__ alignas(16) std::uint32_t part[64][36];
  const int t = threadIdx.x, half = blockIdx.x % 2, tile = blockIdx.x / 2, head = blockIdx.y, batch = blockIdx.z;
  const std::int64_t number = ((std::int64_t{batch} * w.tiles.heads + head) * w.tiles.tiles() + tile) * 2 + half;
  const Span visitors = key_blocks(w.tiles, tile);
  const bool visited = visitors.first < visitors.end;  // else nobody has written there
  const int r = t / 32 * 16 + t % 32 / 4;
#pragma unroll
  for (int c = 0; c < 8; ++c) {
    const float4 x = visited ? w.from[number * 1024 + c * 128 + t] : float4{0, 0, 0, 0};
    const auto put = [&](float a, float b) {
      return w.half ? pack<__half>(a * w.scale, b * w.scale) : pack<__nv_bfloat16>(a * w.scale, b * w.scale);
    };
    part[r][4 * c + t % 4] = put(x.x, x.y), part[r + 8][4 * c + t % 4] = put(x.z, x.w);
  }
  __syncthreads();
  const int first = tile * w.tiles.tile_queries + (w.wide ? 0 : 64 * half), channels = w.wide ? 64 * half : 0;
#pragma unroll
  for (int i = t; i < 512; i += 128) {
    const int row = first + i / 8, channel = channels + i % 8 * 8;
    if (row >= w.tiles.queries || channel >= w.to.width) continue;
    *reinterpret_cast<uint4*>(w.to.row(batch, row, head) + 2 * channel) = *reinterpret_cast<const uint4*>(&part[i / 8][i % 8 * 4]);
  }
}

struct DistancesWork {
  KeyTiles tiles;
  Windows windows;
  DistanceSums sums;
  float* to;  // (H, distances)
  int first_distance;
  int distances;
};
/// Slots of all batch rows into the first of a head, a thread per place.
__global__ void __launch_bounds__(kThreads) add_slots(const __grid_constant__ DistancesWork w) {
  const int x = blockIdx.x * kThreads + threadIdx.x, head = blockIdx.y;
  if (x >= w.windows.length) return;
  float sum = 0;
  for (int batch = 0; batch < w.tiles.batch; ++batch) {
    for (int slot = 0; slot < w.windows.slots; ++slot) {
      sum += w.sums.slots[((std::int64_t{batch} * w.tiles.heads + head) * w.windows.slots + slot) * w.windows.length + x];
    }
  }
  w.sums.slots[std::int64_t{head} * w.windows.slots * w.windows.length + x] = sum;
}
__device__ float sum_of_far(const DistancesWork& w, int head, int side) {
  float sum = 0;
  for (int batch = 0; batch < w.tiles.batch; ++batch) {
    for (int block = 0; block < w.tiles.blocks(); ++block) {
      sum += w.sums.far[((std::int64_t{batch} * w.tiles.heads + head) * w.tiles.blocks() + block) * 2 + side];
    }
  }
  return sum;
}
/// A thread per distance; those at the ends have what is beyond, too.
__global__ void __launch_bounds__(kThreads) store_distances(const __grid_constant__ DistancesWork w) {
  const int n = blockIdx.x * kThreads + threadIdx.x, head = blockIdx.y;
  if (n >= w.distances) return;
  const int distance = w.first_distance + n, at = distance - w.tiles.offset() - w.windows.first;
  const float* const from = w.sums.slots + std::int64_t{head} * w.windows.slots * w.windows.length;
  const int first = max(n == 0 ? 0 : at, 0), last = min(n == w.distances - 1 ? w.windows.length - 1 : at, w.windows.length - 1);
  float sum = 0;
  for (int x = first; x <= last; ++x) sum += from[x];
  if (distance == w.windows.far_left) sum += sum_of_far(w, head, 0);
  if (distance == -w.windows.far_right) sum += sum_of_far(w, head, 1);
  w.to[std::int64_t{head} * w.distances + n] = sum;
}

unsigned blocks_for(int count, int each) { return static_cast<unsigned>((count + each - 1) / each); }
Grid grid_of(unsigned x, const KeyTiles& t) { return {x, static_cast<unsigned>(t.heads), static_cast<unsigned>(t.batch)}; }

}  // namespace

Status make_rows(const char* where, const Backward& b, const BackwardParameter& p, void* stream) {
  RowsWork work = {.tiles = p.tiles,
                   .out = input_rows(b.out),
                   .gradient = input_rows(b.out_gradient),
                   .width = static_cast<int>(b.out.shape[3]),
                   .half = b.out.dtype == DType::f16,
                   .lse = b.lse,
                   .lse_strides = {b.lse_strides[0], b.lse_strides[1], b.lse_strides[2]},
                   .lse_gradient = b.lse_gradient,
                   .lse_gradient_strides = {b.lse_gradient_strides[0], b.lse_gradient_strides[1], b.lse_gradient_strides[2]},
                   .lse_to = const_cast<float*>(p.lse),
                   .delta_to = const_cast<float*>(p.delta)};
  const unsigned blocks = blocks_for(p.tiles.rows(), kThreads / 16);
  return launch(where, {reinterpret_cast<const void*>(&prepare_rows), grid_of(blocks, p.tiles), kThreads, 0, stream}, &work);
}

Status make_windows(const char* where, const Backward& b, const BackwardParameter& p, void* stream) {
  const Forward& f = b.forward;
  if (f.diagonal == nullptr) return {};
  WindowsWork work = {.to = p.windows,
                      .diagonal = f.diagonal,
                      .of_head = f.diagonal_stride,
                      .first_distance = static_cast<int>(f.first_distance),
                      .last_distance = static_cast<int>(f.first_distance + f.distances - 1),
                      .offset = p.tiles.offset()};
  const unsigned heads = f.diagonal_stride == 0 ? 1 : static_cast<unsigned>(p.tiles.heads);
  const Grid grid = {blocks_for(p.windows.length, kThreads), heads};
  return launch(where, {reinterpret_cast<const void*>(&fill_key_windows), grid, kThreads, 0, stream}, &work);
}

Status finish_queries(const char* where, const Backward& b, const BackwardParameter& p, void* stream) {
  if (b.q.data == nullptr) return {};
  QueriesWork work = {.tiles = p.tiles,
                      .from = reinterpret_cast<const float4*>(p.dq),
                      .to = output_rows(b.q),
                      .scale = p.scale,
                      .half = b.q.dtype == DType::f16,
                      .wide = p.tiles.tile_queries == 64};
  const unsigned blocks = 2 * static_cast<unsigned>(p.tiles.tiles());
  return launch(where, {reinterpret_cast<const void*>(&store_queries), grid_of(blocks, p.tiles), 128, 0, stream}, &work);
}

Status finish_distances(const char* where, const Backward& b, const BackwardParameter& p, void* stream) {
  if (b.diagonal == nullptr) return {};
  DistancesWork work = {.tiles = p.tiles,
                        .windows = p.windows,
                        .sums = p.sums,
                        .to = b.diagonal,
                        .first_distance = static_cast<int>(b.forward.first_distance),
                        .distances = static_cast<int>(b.forward.distances)};
  const unsigned heads = static_cast<unsigned>(p.tiles.heads);
  const Grid slots = {blocks_for(p.windows.length, kThreads), heads};
  if (Status s = launch(where, {reinterpret_cast<const void*>(&add_slots), slots, kThreads, 0, stream}, &work); !s) return s;
  const Grid distances = {blocks_for(work.distances, kThreads), heads};
  return launch(where, {reinterpret_cast<const void*>(&store_distances), distances, kThreads, 0, stream}, &work);
}

}  // namespace phasor::cuda::hopper
