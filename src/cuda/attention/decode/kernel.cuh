// SPDX-License-Identifier: Apache-2.0
// A block of decoding: a split of one sequence's keys, one key head with all rows that read it. Keys and values come in stages of 64 by
// asynchronous copies; each warp has 16 rows and its part of every stage's keys, with a softmax of its own, and the warps are made one at
// the end. Keys of 8 bits become f16 in registers: their channels meet q's in another order, in which a thread's are side by side.
#pragma once

#include "cuda/attention/decode/places.cuh"
#include "cuda/attention/decode/products.cuh"
#include "cuda/attention/decode/queries.cuh"
#include "cuda/attention/decode/sums.cuh"

namespace phasor::cuda::decode {

/// A row that a thread has scores of.
struct Row {
  int64_t position;
  const float* diagonal;  // of its biases; null: there is none
  float factor;           // on products
  float far;              // the bias beyond far_left
  float factor_2, far_2;  // both for exponentials of 2
  bool there;
};
__device__ inline float bias_at(const DecodeWork& work, const float* diagonal, int64_t distance) {
  int64_t n = distance - work.first_distance;
  n = n < 0 ? 0 : n >= work.distances ? work.distances - 1 : n;
  return diagonal[n];
}

/// A product as a score in base 2.
__device__ inline float score_of(const DecodeWork& work, const Block& block, const Row& row, float product, int64_t key, bool is_far) {
  const int64_t distance = row.position - key;
  if (!row.there || key >= block.keys || distance > work.left || -distance > work.right) return -INFINITY;
  if (work.mask.data != nullptr && work.mask.data[block.batch * work.mask.strides[0] + key * work.mask.strides[1]] == 0) return -INFINITY;
  float score = product * row.factor;
  if (work.diagonal != nullptr) score += is_far ? row.far : bias_at(work, row.diagonal, distance);
  if (work.softcap != 0) score = work.softcap * tanhf(score / work.softcap);
  return score * kLog2E;
}

/// Of two rows and the keys key, key + 1, key + 8 and key + 9, all of whose distances have a number.
__device__ inline void load_biases(const DecodeWork& work, const Row (&rows)[2], int64_t key, float (&biases)[2][4]) {
#pragma unroll
  for (int c = 0; c < 4; ++c) {
    const Row& row = rows[c / 2];
    const float* const at = row.diagonal + (row.position - key - c % 2 - work.first_distance);
#pragma unroll
    for (int n = 0; n < 2; ++n) biases[n][c] = row.there ? at[-8 * n] : 0;
  }
}

/// The rows whose scores a thread has: two of the 16 of its warp, which begin at `first` of the block.
__device__ __forceinline__ void find_rows(const DecodeWork& work, const Block& block, int first, const float* powers, Row (&rows)[2]) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int r = first + static_cast<int>(threadIdx.x) % 32 / 4 + half * 8;
    const int row = block.first_row + r;
    rows[half].there = row < rows_of(work);
    rows[half].position = block.keys - work.queries + row / work.group;
    const int head = block.key_head * work.group + row % work.group;
    const bool has_bias = work.diagonal != nullptr && rows[half].there;
    rows[half].diagonal = !has_bias ? nullptr
                                    : work.diagonal + block.batch * work.diagonal_strides[0] + row / work.group * work.diagonal_strides[1] +
                                          head * work.diagonal_strides[2];
    rows[half].factor = work.scale * scale_of(work.k, block.key_head) * powers[r];
    rows[half].far = has_bias ? bias_at(work, rows[half].diagonal, work.far_left) : 0;
    rows[half].factor_2 = rows[half].factor * kLog2E;
    rows[half].far_2 = rows[half].far * kLog2E;
  }
}

/// What is known of all of a block's scores.
struct ScoreRules {
  int64_t least_position;  // of a query
  bool is_uncapped_unmasked;
  bool is_plain;             // products times a factor
  int first_seen, end_seen;  // keys of the split that every query sees by its distance
};
__device__ __forceinline__ ScoreRules rules_of(const DecodeWork& work, const Block& block) {
  ScoreRules rules;
  rules.least_position = block.keys - work.queries;
  rules.is_uncapped_unmasked = work.softcap == 0 && work.mask.data == nullptr;
  rules.is_plain = rules.is_uncapped_unmasked && work.diagonal == nullptr;
  const int64_t first = (work.left >= block.keys ? 0 : block.keys - 1 - work.left) - block.first;
  const int64_t end = work.right >= block.keys ? block.keys : rules.least_position + work.right + 1;
  const int64_t end_there = (end < block.keys ? end : block.keys) - block.first;
  rules.first_seen = static_cast<int>(first > 0 ? (first < kSplit ? first : kSplit) : 0);
  rules.end_seen = static_cast<int>(end_there < kSplit ? end_there : kSplit);
  return rules;
}

/// What is known of the scores of 16 keys, all rows'. Found in the kernel's own loop: by a function, kernels of 16 bits had up to 11
/// registers more.
struct KeyRules {
  bool is_seen;  // by every query, but for the mask
  bool is_far;   // all distances have the last bias
  bool is_near;  // no distance is beyond the biases, and nothing but a bias is added to products
};
/// Products of a thread's rows with its keys, of which first_key is the warp's first, become scores in base 2.
__device__ __forceinline__ void make_scores(const DecodeWork& work, const Block& block, const ScoreRules& rules, const KeyRules& keys,
                                            const Row (&rows)[2], int64_t first_key, const float (&biases)[2][4], float (&scores)[2][4]) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int n = 0; n < 2; ++n) {
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      const Row& of = rows[c / 2];
      if (keys.is_seen && rules.is_plain) {
        scores[n][c] *= of.factor_2;
      } else if (keys.is_seen && keys.is_far && rules.is_uncapped_unmasked) {
        scores[n][c] = scores[n][c] * of.factor_2 + of.far_2;
      } else if (keys.is_near) {
        scores[n][c] = of.there ? scores[n][c] * of.factor_2 + biases[n][c] * kLog2E : -INFINITY;
      } else {
        scores[n][c] = score_of(work, block, of, scores[n][c], first_key + n * 8 + lane % 4 * 2 + c % 2, keys.is_far);
      }
    }
  }
}

template <class S>
__global__ void __launch_bounds__(kThreads, S::kBlocks) decode_block(const __grid_constant__ DecodeWork work) {
  extern __shared__ __align__(128) std::byte memory[];
  __shared__ float powers[S::kRows];
  Block block;
  if (!find_block<S>(work, block)) return;
  std::byte* const query_memory = memory + S::kStages * S::kStageBytes;
  auto* const places = reinterpret_cast<Place*>(query_memory + 2 * S::kQueryBytes);
  const std::uint32_t stages = shared_address(memory);
  const QueryBits<S> first_queries = load_queries<S>(work, block, 0);
  find_places(work, block, places);
  __syncthreads();
  const auto stage_of = [&](int tile) {
    return stages + static_cast<std::uint32_t>((tile - block.first_tile) % S::kStages * S::kStageBytes);
  };
  const auto bring = [&](int tile) {
    if (tile < block.end_tile) bring_tile<S>(places, tile, stage_of(tile));
    end_copies();
  };
#pragma unroll
  for (int n = 0; n < S::kStages - 1; ++n) bring(block.first_tile + n);
  put_queries<S>(work, first_queries, 0, query_memory, powers);
  for (int group = 1; group < S::kRowTiles; ++group) put_queries<S>(work, load_queries<S>(work, block, group), group, query_memory, powers);
  __syncthreads();
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int row_tile = warp % S::kRowTiles;
  const int part = warp / S::kRowTiles;
  const std::uint32_t queries = shared_address(query_memory) + row_tile * 16 * S::kWidth * 2;
  const bool split_queries = work.q.dtype == DType::f32;
  Row rows[2];
  find_rows(work, block, row_tile * 16, powers, rows);
  const ScoreRules rules = rules_of(work, block);
  Sums<S> sums = {};
  sums.most[0] = sums.most[1] = -INFINITY;
  for (int tile = block.first_tile; tile < block.end_tile; ++tile) {
    wait_copies<S::kStages - 2>();
    __syncthreads();
    bring(tile + S::kStages - 1);
    const std::uint32_t stage = stage_of(tile);
#pragma unroll
    for (int sub = 0; sub < S::kPartKeys / 16; ++sub) {
      const int row = part * S::kPartKeys + sub * 16;
      const int64_t first_key = block.first + tile * kTile + row;
      if (first_key >= block.keys) continue;
      float scores[2][4] = {};
      KeyRules keys;
      keys.is_far = rules.least_position - (first_key + 15) >= work.far_left;
      const int in_split = tile * kTile + row;
      keys.is_seen = in_split >= rules.first_seen && in_split + 16 <= rules.end_seen;
      // Loads of biases begin before the products, which hide their latency; where registers would spill they do not.
      keys.is_near = S::kWidth < 256 && !S::kBytes && keys.is_seen && rules.is_uncapped_unmasked && !keys.is_far &&
                     rules.least_position - (first_key + 15) >= work.first_distance &&
                     block.keys - 1 - first_key < work.first_distance + work.distances;
      float biases[2][4];
      if (keys.is_near) load_biases(work, rows, first_key + lane % 4 * 2, biases);
      multiply_keys<S>(stage, queries, row, split_queries, scores);
      make_scores(work, block, rules, keys, rows, first_key, biases, scores);
      std::uint32_t weights[4];
      add_scores<S>(sums, scores, weights);
      multiply_values<S>(stage + kTile * S::kRowBytes, row, weights, sums.out);
    }
  }
  wait_copies<0>();
  __syncthreads();
  write_partial<S>(work, block, sums, row_tile, part, reinterpret_cast<float*>(memory));
}

/// A kernel and the bytes that its blocks share.
struct Kernel {
  const void* kernel = nullptr;
  int shared_bytes = 0;
  int rows = 0;  // of a block
};
template <Storage kStorage, int kWidth, int kRowTiles>
Kernel kernel_of() {
  using S = Shape<kStorage, kWidth, kRowTiles>;
  return {reinterpret_cast<const void*>(&decode_block<S>), S::kSharedBytes, S::kRows};
}
template <Storage kStorage, int kWidth>
Kernel kernel_of(int rows) {
  if (rows <= 16) return kernel_of<kStorage, kWidth, 1>();
  return rows <= 32 ? kernel_of<kStorage, kWidth, 2>() : kernel_of<kStorage, kWidth, 4>();
}
/// For rows that share keys; width 64, 128 or 256.
template <Storage kStorage>
Kernel kernel_of(int width, int rows) {
  if (width == 64) return kernel_of<kStorage, 64>(rows);
  return width == 128 ? kernel_of<kStorage, 128>(rows) : kernel_of<kStorage, 256>(rows);
}

}  // namespace phasor::cuda::decode
