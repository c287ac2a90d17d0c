// SPDX-License-Identifier: Apache-2.0
// Which weights of a tile dropout keeps. A block of Philox has the numbers of four keys for one query, and a lane has one of these keys:
// four lanes make the blocks of four queries, each one, and exchange their words.
#pragma once

#include "cuda/attention/mma/backward/room.cuh"
#include "cuda/attention/scores.hpp"

namespace phasor::cuda::attention::mma::backward {

/// By query; threads see each other's behind a barrier.
template <class K>
__device__ inline void make_dropout_keys(const Step<K>& at) {
  const QueryTile& queries = at.tile.queries;
  for (int i = thread_here(); i < K::kQueries; i += kBackwardThreads) {
    const int64_t position = query_position(at.work, queries.sequence, queries.first + i);
    at.room.dropout_keys[i] = dropout_key_of(at.work, at.tile.head, queries.sequence.index, position);
  }
}

/// Bit 4 n + x: number x of column n of a lane's product (each_of_lane) is kept.
template <int kColumns>
__device__ PHASOR_OUT_OF_LINE std::uint32_t kept_by(const DropoutWork& dropout, const math::PhiloxKey* keys, int64_t first_key) {
  static_assert(kColumns % 2 == 0 && 4 * kColumns <= 32);
  const int lane = lane_here();
  const int own = lane / 4 & 3;  // which of the four keys is the lane's, and which of the four queries it makes numbers for
  const int64_t key = first_key + 16 * key_tile_of_warp() + lane / 16 * 4;
  std::uint32_t kept = 0;
#pragma unroll 1
  for (int pair = 0; pair < kColumns; ++pair) {  // of columns, for keys g and then for keys g + 8
    const int column = pair % (kColumns / 2) * 2;
    const int h = pair / (kColumns / 2);
    const int query = query_of_lane<kColumns>() + 8 * (column + own / 2) + (own & 1);
    const math::PhiloxBlock words = math::dropout_words(keys[query], math::dropout_block(key + 8 * h), dropout.offset);
#pragma unroll
    for (int other = 0; other < 4; ++other) {  // exchange with the lane of key own ^ other: it has our key's word for its query
      const int wanted = own ^ other;
      const math::u32 word = wanted < 2 ? (wanted == 0 ? words.word[0] : words.word[1]) : (wanted == 2 ? words.word[2] : words.word[3]);
      const math::u32 mine = other == 0 ? word : __shfl_xor_sync(~0U, word, 4 * other);
      kept |= static_cast<std::uint32_t>(mine >= dropout.threshold) << (4 * (column + wanted / 2) + 2 * h + (wanted & 1));
    }
  }
  return kept;
}

template <class K>
__device__ __forceinline__ std::uint32_t kept_of_lane(const Step<K>& at) {
  return kept_by<K::kColumns>(at.work.dropout, at.room.dropout_keys, at.tile.first_key - at.tile.queries.sequence.first_key);
}

/// x: numbers of kept weights times the factor, the others 0.
template <int kColumns>
__device__ __forceinline__ void drop(std::uint32_t kept, const DropoutWork& dropout, float (&x)[kColumns][4]) {
  const auto factor = static_cast<float>(dropout.factor);
#pragma unroll
  for (int n = 0; n < kColumns; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) x[n][i] = (kept >> (4 * n + i) & 1U) != 0 ? factor * x[n][i] : 0;
  }
}

}  // namespace phasor::cuda::attention::mma::backward
