// SPDX-License-Identifier: Apache-2.0
// Which tiles of keys need not be visited, found on the device before the forward runs.
//
// A query's sum has at least the weight of its own key, at distance 0. A key at a distance of r or more has at most the score
// scale |q| max |k| + bias(r), since the bias falls. Where that is ln(2^24 n) below the own key's score, all such keys, n of them at most,
// add up to less than 2^-24 of the sum: the certificate of the CPU, with the own key's score in the place of the maximum so far.
#include "cuda/attention/hopper/skip.hpp"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <cmath>

#include "cuda/attention/hopper/work.hpp"
#include "cuda/device.hpp"

namespace phasor::cuda::hopper {
namespace {

constexpr int kThreads = 256;
constexpr int kKeysOfBlock = 512;
/// Norms and scores are sums of up to 256 products in float32, those of the tensor cores cut off: 2^-15 of |q| |k| each, at most.
constexpr float kRoundings = 0x1p-10f;
/// What squares below the smallest number may have lost of a norm.
constexpr float kLost = 0x1p-68f;

/// Rows of 16 bytes a thread.
struct Rows16 {
  const unsigned char* data;
  std::int64_t strides[3];  // batch row, token, head; in bytes
};
struct SkipWork {
  Rows16 q;
  Rows16 k;
  Tiles tiles;
  int vectors;  // of a row: 8 channels each
  int lanes;    // threads of a row, a power of two
  const float* diagonal;
  std::int64_t of_head;
  int first_distance;
  int last_distance;
  float scale;
  float slack;
  unsigned* norms;  // squared, as the bits of a float, which rise with it; not a number: above all
  int* first_tiles;
};

template <class Element>
struct Eight {
  float x[8];
  __device__ Eight(const Rows16& rows, int batch, int token, int head, int vector) {
    const uint4 bits = *reinterpret_cast<const uint4*>(rows.data + batch * rows.strides[0] + token * rows.strides[1] +
                                                       head * rows.strides[2] + 16 * vector);
    const std::uint32_t words[4] = {bits.x, bits.y, bits.z, bits.w};
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const auto half = static_cast<std::uint16_t>(words[i / 2] >> (i % 2 * 16));
      x[i] = static_cast<float>(reinterpret_cast<const Element&>(half));
    }
  }
};
__device__ float sum_of(float x, int lanes) {
  for (int i = 1; i < lanes; i *= 2) x += __shfl_xor_sync(~0u, x, i);
  return x;
}

template <class Element>
__global__ void __launch_bounds__(kThreads) find_norms(const __grid_constant__ SkipWork w) {
  const int lane = threadIdx.x % w.lanes, rows = kThreads / w.lanes;
  const int first = blockIdx.x * kKeysOfBlock;
  float greatest = 0;
  for (int row = threadIdx.x / w.lanes; row < kKeysOfBlock; row += rows) {  // as many for every thread of a warp
    float sum = 0;
    if (first + row < w.tiles.keys && lane < w.vectors) {
      const Eight<Element> k(w.k, blockIdx.z, first + row, blockIdx.y, lane);
#pragma unroll
      for (int i = 0; i < 8; ++i) sum += k.x[i] * k.x[i];
    }
    sum = sum_of(sum, w.lanes);
    greatest = sum <= greatest ? greatest : sum >= 0 ? sum : INFINITY;  // what is no number leaves nothing out
  }
  const unsigned bits = __reduce_max_sync(~0u, __float_as_uint(greatest));
  if (threadIdx.x % 32 == 0) atomicMax(w.norms + blockIdx.z * gridDim.y + blockIdx.y, bits);
}

__device__ float bias_at(const SkipWork& w, int head, int distance) {
  return w.diagonal[head * w.of_head + min(max(distance, w.first_distance), w.last_distance) - w.first_distance];
}
/// The least distance of 1 to `most` from which on the bias is more than `need` below that at 0; most + 1: there is none.
__device__ int least_distance(const SkipWork& w, int head, int most, float need) {
  const float own = bias_at(w, head, 0);
  int low = 1, high = most + 1;
  while (low < high) {
    const int middle = low + (high - low) / 2;
    if (own - bias_at(w, head, middle) > need) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

/// A block of queries: what each row needs, then the first key that one of them needs.
template <class Element>
__global__ void __launch_bounds__(kThreads) find_firsts(const __grid_constant__ SkipWork w) {
  __shared__ float need[kThreads];
  __shared__ int first_key;
  const Tiles& t = w.tiles;
  const Work at = {static_cast<int>(blockIdx.x) * t.block_queries, static_cast<int>(blockIdx.y), static_cast<int>(blockIdx.z)};
  const int key_head = at.head / t.heads_of_key;
  const float norm = sqrtf(__uint_as_float(w.norms[at.batch * (t.heads / t.heads_of_key) + key_head])) + kLost;
  if (threadIdx.x == 0) first_key = t.keys;
  for (int row = threadIdx.x / w.lanes; row < t.block_queries; row += kThreads / w.lanes) {
    const int lane = threadIdx.x % w.lanes, query = at.row + row, position = query + t.offset();
    float square = 0, dot = 0;
    if (query < t.queries && position >= 0 && lane < w.vectors) {
      const Eight<Element> q(w.q, at.batch, query, at.head, lane), k(w.k, at.batch, position, key_head, lane);
#pragma unroll
      for (int i = 0; i < 8; ++i) square += q.x[i] * q.x[i], dot += q.x[i] * k.x[i];
    }
    square = sum_of(square, w.lanes), dot = sum_of(dot, w.lanes);
    const float most = (sqrtf(square) + kLost) * norm * (1 + kRoundings);
    if (lane == 0) need[row] = (w.scale * (most - dot) + w.slack) * (1 + 0x1p-20f);
  }
  __syncthreads();
  const int query = at.row + static_cast<int>(threadIdx.x), position = query + t.offset();
  if (static_cast<int>(threadIdx.x) < t.block_queries && query < t.queries && position >= 0) {
    atomicMin(&first_key, position + 1 - least_distance(w, at.head, position, need[threadIdx.x]));
  }
  __syncthreads();
  if (threadIdx.x == 0) w.first_tiles[block_index(t, at)] = first_key / t.tile_keys;
}

Rows16 rows_of(const ConstTensorView& v) {
  return {static_cast<const unsigned char*>(v.data), {v.strides[0] * 2, v.strides[1] * 2, v.strides[2] * 2}};
}
SkipWork work_of(const Forward& f, const Tiles& tiles, void* workspace) {
  const Layout layout = layout_of(f, tiles);
  const std::uintptr_t begin = aligned(workspace);
  int lanes = 1;
  while (lanes * 8 < f.q.shape[3]) lanes *= 2;
  return {.q = rows_of(f.q),
          .k = rows_of(f.k),
          .tiles = tiles,
          .vectors = static_cast<int>(f.q.shape[3] / 8),
          .lanes = lanes,
          .diagonal = f.diagonal,
          .of_head = f.diagonal_stride,
          .first_distance = static_cast<int>(f.first_distance),
          .last_distance = static_cast<int>(f.first_distance + f.distances - 1),
          .scale = static_cast<float>(f.scale),
          .slack = static_cast<float>(24 * M_LN2 + std::log(static_cast<double>(tiles.keys))),
          .norms = reinterpret_cast<unsigned*>(begin + layout.norms),
          .first_tiles = reinterpret_cast<int*>(begin + layout.first_tiles)};
}

}  // namespace

Status find_first_tiles(const char* where, const Forward& f, void* workspace, void* stream) {
  if (!may_skip(f)) return {};
  const Tiles tiles = tiles_of(f);
  SkipWork work = work_of(f, tiles, workspace);
  const auto key_heads = static_cast<unsigned>(tiles.heads / tiles.heads_of_key), batch = static_cast<unsigned>(tiles.batch);
  const auto key_blocks = static_cast<unsigned>((tiles.keys + kKeysOfBlock - 1) / kKeysOfBlock);
  const bool half = f.q.dtype == DType::f16;
  const cudaError_t cleared = cudaMemsetAsync(work.norms, 0, key_heads * batch * sizeof(unsigned), static_cast<cudaStream_t>(stream));
  if (cleared != cudaSuccess) return status_of(where, cleared);
  const auto norms = half ? reinterpret_cast<const void*>(&find_norms<__half>) : reinterpret_cast<const void*>(&find_norms<__nv_bfloat16>);
  if (Status s = launch(where, {norms, {key_blocks, key_heads, batch}, kThreads, 0, stream}, &work); !s) return s;
  const auto firsts =
      half ? reinterpret_cast<const void*>(&find_firsts<__half>) : reinterpret_cast<const void*>(&find_firsts<__nv_bfloat16>);
  const Grid grid = {static_cast<unsigned>(tiles.blocks()), static_cast<unsigned>(tiles.heads), batch};
  return launch(where, {firsts, grid, kThreads, 0, stream}, &work);
}

}  // namespace phasor::cuda::hopper
