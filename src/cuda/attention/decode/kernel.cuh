// SPDX-License-Identifier: Apache-2.0
// A block of decoding: a split of one sequence's keys, one key head with all rows that read it. A warp brings 16 or 32 keys and their
// values at a time by asynchronous copies, has a softmax of its own, and waits for nobody where a block has no more rows than a warp; the
// warps are made one at the end. Keys of 8 bits become f16 in registers: their channels meet q's in another order, in which a thread's are
// side by side.
#pragma once

#include "cuda/attention/decode/places.cuh"
#include "cuda/attention/decode/products.cuh"
#include "cuda/attention/decode/queries.cuh"
#include "cuda/attention/decode/sums.cuh"

namespace phasor::cuda::decode {

/// A product as a score in base 2, whose factor is, too.
__device__ inline float score_of(const DecodeWork& work, const Block& block, const Row& row, float factor, float product, int key) {
  const int64_t distance = block.keys - work.queries + row.query - key;
  if (row.query >= work.queries || key >= block.keys || distance > work.left || -distance > work.right) return -INFINITY;
  if (work.mask.data != nullptr && work.mask.data[block.batch * work.mask.strides[0] + key * work.mask.strides[1]] == 0) return -INFINITY;
  float score = product * factor;
  if (work.diagonal != nullptr) score = fmaf(distance >= work.far_left ? row.far : bias_at(work, row.diagonal, distance), kLog2E, score);
  const float cap = work.softcap * kLog2E;
  return cap != 0 ? cap * tanhf(score / cap) : score;
}

/// The row of a thread's column, of those of its warp.
template <class S>
__device__ inline const Row& row_at(const Row* rows, int column, int half) {
  return rows[column * 8 + static_cast<int>(threadIdx.x) % 4 * 2 + half];
}
/// Of a thread's rows and the keys key and key + 8, all of whose distances have a number.
template <class S>
__device__ __forceinline__ void load_biases(const DecodeWork& work, const Block& block, const Row* rows, int key,
                                            float (&biases)[S::kColumns][4]) {
  const int64_t first = block.keys - work.queries - key - work.first_distance;
#pragma unroll
  for (int column = 0; column < S::kColumns; ++column) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const Row& row = row_at<S>(rows, column, half);
      const bool there = row.query < work.queries;
      biases[column][half] = there ? row.diagonal[first + row.query] : -INFINITY;
      biases[column][half + 2] = there ? row.diagonal[first + row.query - 8] : -INFINITY;
    }
  }
}

/// How the scores of 16 keys are made of products: by a factor, by a factor and the last bias, by a factor and biases of their own, or by
/// all that there is.
enum class Way { plain, far, near, general };
/// Between which numbers of a split 16 keys begin whose scores are made so: `near` that are not far before.
struct Ways {
  int first_plain, last_plain;
  int first_far, last_far;
  int first_near, last_near;
};
__device__ __forceinline__ int in_split(int64_t n) { return static_cast<int>(n < -1 ? -1 : n > kSplit ? kSplit : n); }
template <class S>
__device__ __forceinline__ Ways ways_of(const DecodeWork& work, const Block& block) {
  const int64_t least = block.keys - work.queries - int64_t{block.first};  // the position of the first query, in the split
  const int64_t most = block.keys - 1 - int64_t{block.first};
  // Seen by every query but for the mask.
  const int first = in_split(work.left >= block.keys ? 0 : most - work.left);
  const int last = in_split((work.right >= block.keys || least + work.right > most ? most : least + work.right) - 15);
  Ways ways = {0, -1, 0, -1, 0, -1};
  if (work.softcap != 0 || work.mask.data != nullptr) return ways;
  if (work.diagonal == nullptr) {
    ways.first_plain = first, ways.last_plain = last;
    return ways;
  }
  const auto until_last = [&](int64_t n) { return n < last ? in_split(n) : last; };
  ways.first_far = first;
  ways.last_far = work.far_left >= block.keys ? -1 : until_last(least - 15 - work.far_left);
  if (S::kWidth > 128) return ways;  // registers would spill where biases come before products
  const int first_near = in_split(most - work.first_distance - work.distances + 1);  // from here on no distance is beyond the biases
  ways.first_near = first_near > first ? first_near : first;
  ways.last_near = until_last(least - 15 - work.first_distance);
  return ways;
}
/// Those of a block that scores ask for: few do for what is in shared memory, so that no registers are kept for it.
struct WayRules {
  int first_plain, last_plain;
  const Ways* ways;
};
__device__ __forceinline__ Way way_of(const WayRules& rules, int key) {
  if (key >= rules.first_plain && key <= rules.last_plain) return Way::plain;
  const Ways& ways = *rules.ways;
  if (key >= ways.first_far && key <= ways.last_far) return Way::far;
  return key >= ways.first_near && key <= ways.last_near ? Way::near : Way::general;
}

/// Products of a thread's rows with its keys, `key` and 8 behind it, become scores in base 2, less `from`.
template <class S>
__device__ __forceinline__ void make_scores(const DecodeWork& work, const Block& block, Way way, const Row* rows,
                                            const float (&factors)[S::kColumns][2], const Sums<S>& sums, int key,
                                            const float (&biases)[S::kColumns][4], float (&scores)[S::kColumns][4]) {
  const auto each = [&](const auto& score) {
#pragma unroll
    for (int column = 0; column < S::kColumns; ++column) {
#pragma unroll
      for (int half = 0; half < 2; ++half) score(column, half, sums.from[column][half], scores[column][half], scores[column][half + 2]);
    }
  };
  if (way == Way::plain) {
    each([&](int column, int half, float from, float& low, float& high) {
      low = fmaf(low, factors[column][half], -from);
      high = fmaf(high, factors[column][half], -from);
    });
  } else if (way == Way::far) {
    each([&](int column, int half, float from, float& low, float& high) {
      const float far = row_at<S>(rows, column, half).far * kLog2E - from;
      low = fmaf(low, factors[column][half], far);
      high = fmaf(high, factors[column][half], far);
    });
  } else if (way == Way::near) {
    each([&](int column, int half, float from, float& low, float& high) {
      low = fmaf(low, factors[column][half], fmaf(biases[column][half], kLog2E, -from));
      high = fmaf(high, factors[column][half], fmaf(biases[column][half + 2], kLog2E, -from));
    });
  } else {
    each([&](int column, int half, float from, float& low, float& high) {
      const Row& row = row_at<S>(rows, column, half);
      low = score_of(work, block, row, factors[column][half], low, key) - from;
      high = score_of(work, block, row, factors[column][half], high, key + 8) - from;
    });
  }
}

/// The threads that share keys: a warp, or the block.
template <class S>
__device__ inline void wait_for_team() {
  if constexpr (S::kTeam == 1) {
    __syncwarp();
  } else {
    __syncthreads();
  }
}

/// A block: number x of those of sequence `batch`.
template <class S>
__device__ __forceinline__ void decode_block(const DecodeWork& work, unsigned x, unsigned batch, std::byte* memory) {
  Block block;
  if (!find_block<S>(work, x, batch, block)) return;
  const bool split_queries = splits_queries(work);
  std::byte* const query_memory = memory + Room<S>::kQueries;
  auto* const block_rows = reinterpret_cast<Row*>(memory + Room<S>::rows(split_queries));
  auto* const ways = reinterpret_cast<Ways*>(memory + Room<S>::ways(split_queries));
  auto* const places = reinterpret_cast<int64_t*>(memory + Room<S>::places(split_queries));
  const std::uint32_t stages = shared_address(memory);
  const LaneKeys lane_keys = ask_for_blocks<S>(work, block);
  const QueryBits<S> first_queries = ask_for_queries<S>(work, block, 0);
  put_places(work, lane_keys, places);
  __syncwarp();
  const Bringer bringer = bringer_of<S>(work, block, places);
  const auto bring = [&](int tile, int stage) {
    if (tile < block.end_tile) bring_tile<S>(bringer, tile, stages + static_cast<std::uint32_t>(stage * S::kStageBytes));
    end_copies();
  };
#pragma unroll
  for (int n = 0; n < S::kStages - 1; ++n) bring(block.first_tile + n, n);
  put_rows<S>(work, block, block_rows);
  if (threadIdx.x == kThreads - 1) *ways = ways_of<S>(work, block);
  put_queries<S>(work, first_queries, 0, query_memory, block_rows);
  for (int group = 1; group < kRowGroups<S>; ++group) {
    put_queries<S>(work, ask_for_queries<S>(work, block, group), group, query_memory, block_rows);
  }
  __syncthreads();
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int team = warp % S::kTeam;
  const int part = warp / S::kTeam;
  const std::uint32_t queries = shared_address(query_memory) + team * S::kWarpRows * S::kWidth * 2;
  HeldQueries<S> held = {};
  hold_queries<S>(queries, held);
  const Row* const rows = block_rows + team * S::kWarpRows;
  const float scale = work.scale * scale_of(work.k, block.key_head) * kLog2E;
  float factors[S::kColumns][2];
#pragma unroll
  for (int column = 0; column < S::kColumns; ++column) {
    for (int half = 0; half < 2; ++half) factors[column][half] = row_at<S>(rows, column, half).power * scale;
  }
  const WayRules rules = {ways->first_plain, ways->last_plain, ways};
  Sums<S> sums = no_sums<S>();
  int stage_number = 0;
  for (int tile = block.first_tile; tile < block.end_tile; ++tile) {
    wait_copies<S::kStages - 2>();
    wait_for_team<S>();
    bring(tile + S::kStages - 1, stage_number == 0 ? S::kStages - 1 : stage_number - 1);
    const std::uint32_t stage = stages + static_cast<std::uint32_t>(stage_number * S::kStageBytes);
    stage_number = stage_number == S::kStages - 1 ? 0 : stage_number + 1;
#pragma unroll 1
    for (int step = 0; step < S::kTeam; ++step) {
      const int row = (part * S::kTeam + step) * S::kKeys;
      const int first = tile * S::kTile + row;
      if (first >= block.end) continue;
      const std::uint32_t keys_at = stage + static_cast<std::uint32_t>(row * S::kRowBytes);
      float scores[S::kGroups][S::kColumns][4];
#pragma unroll
      for (int group = 0; group < S::kGroups; ++group) {
        const Way way = way_of(rules, first + group * 16);
        const int key = block.first + first + group * 16 + lane / 4;
        float biases[S::kColumns][4];
        if (way == Way::near) load_biases<S>(work, block, rows, key, biases);
        multiply_keys<S>(keys_at + group * 16 * S::kRowBytes, queries, held, split_queries, scores[group]);
        make_scores<S>(work, block, way, rows, factors, sums, key, biases, scores[group]);
      }
      std::uint32_t weights[S::kGroups][S::kColumns][2];
      add_scores<S>(sums, scores, weights);
#pragma unroll
      for (int group = 0; group < S::kGroups; ++group) {
        multiply_values<S>(keys_at + (S::kTile + group * 16) * S::kRowBytes, weights[group], sums.out);
      }
    }
  }
  wait_copies<0>();
  __syncthreads();
  auto* const room = reinterpret_cast<float*>(memory);
  auto* const numbers = reinterpret_cast<PartSum*>(room + S::kParts * S::kRows * S::kOutRow);
  lay_sums<S>(sums, team, part, room, numbers);
  __syncthreads();
  write_partial<S>(work, block, room, numbers);
}

}  // namespace phasor::cuda::decode
