// SPDX-License-Identifier: Apache-2.0
// The shared memory of a block of the backward, and where it is in the call.
#pragma once

#include "cuda/attention/backward/place.hpp"
#include "cuda/attention/base2.hpp"
#include "cuda/attention/mma/backward/call.hpp"
#include "cuda/attention/mma/rows.cuh"
#include "cuda/attention/mma/tiles.hpp"

namespace phasor::cuda::attention::mma::backward {

constexpr int kWarps = kBackwardThreads / 32;
/// Warps that share 16 keys: each has scores of some of the queries, and sums of some of the channels.
constexpr int kKeyTiles = kKeys / 16;
constexpr int kKeyShare = kWarps / kKeyTiles;
__device__ __forceinline__ int key_tile_of_warp() { return warp_here() % kKeyTiles; }
__device__ __forceinline__ int share_of_warp() { return warp_here() / kKeyTiles; }

/// A tile of numbers by row and distance, or by row and run of distances (runs.cuh). Rows are the tile's queries or its keys, kOthers is
/// how many of the other side each of them meets. 16 rows together have columns for all distances that any of them meets; the first column
/// is a multiple of 16 among the distances. Pitches: odd numbers of 16 bytes for matrices, and lanes of a product in different banks.
template <int kRows_, int kOthers_>
struct SkewedTile {
  static constexpr int kRows = kRows_;
  static constexpr int kOthers = kOthers_;
  static constexpr int kColumns = kOthers + 32;
  static constexpr int kPitch = kColumns + 3;        // of float32
  static constexpr int kNarrowPitch = kColumns + 8;  // of 16 bits
  static constexpr int kBytes = kRows * kPitch * 4;
  static constexpr int kNarrowBytes = kRows * kNarrowPitch * 2;
};
constexpr int greatest(int a, int b) { return a > b ? a : b; }

/// The distances of a tile from the least one on, in runs: those side by side that have one row of a table. No row comes again in another
/// run of a tile (call.cpp).
template <int kDistances, int kWidth>
struct Runs {
  std::int32_t rows[kDistances];              // of each run; -1: none
  std::uint32_t begins[kDistances / 32 + 1];  // bit: a run begins at that distance
  std::int32_t count;                         // of runs
  std::uint8_t of_distance[kDistances];
  float shift[kWidth];       // a vector that is added to the features that meet the rows
  float shifts[kDistances];  // its product with each row
};

/// A term of a block's head: what takes divisions of 64 bits to find, or numbers of another precision.
struct TermHere {
  float* slot;   // where its sums begin: the rows of a table, a bias at distance 0; null: not wanted
  int pitch;     // from one row to the next
  float scale;   // of a table
  float by_key;  // that by the scale of the content, which multiplies sums of keys at the end
};

/// What kernels of their own have besides, so that those without it keep their registers: some table is added to values, or the only
/// table is met by features of the call's own.
enum class With { nothing, values, features };

template <class Element_, int kWidth_, With kWith = With::nothing>
struct Kind {
  using Element = Element_;
  static constexpr int kWidth = kWidth_;
  static constexpr bool kValued = kWith == With::values;
  static constexpr bool kFeatured = kWith == With::features;
  static constexpr int kRowWidth = kFeatured ? kMostFeatures : kWidth;  // of tables, and of what meets them
  static constexpr int kQueries = queries_for(kWidth);
  static constexpr int kDistances = kQueries + kKeys;  // one more than a tile has
  static constexpr int kQueryTiles = kQueries / 16;
  static constexpr int kWarpsOfTile = kWarps / kQueryTiles;  // that share 16 queries
  static constexpr int kChannels = kWidth / kWarpsOfTile;    // of them that a warp has
  static constexpr int kColumns = kQueries / kKeyShare / 8;  // of 8 queries, of a warp's scores
  static constexpr int kKeyChannels = kWidth / kKeyShare;    // of keys that a warp has
  static constexpr int kGradientPitch = (kQueries + 8) * 2;  // bytes
  using ByQuery = SkewedTile<kQueries, kKeys>;
  using ByKey = SkewedTile<kKeys, kQueries>;
  /// Of numbers by keys and queries in 16 bits, where those of 16 keys begin: others beside them are in other banks.
  static constexpr int kGradientTile = 16 * kGradientPitch + 16;
  static constexpr int kGradientBytes = kKeyTiles * kGradientTile;
  static constexpr int kSkewedBytes =
      greatest(greatest(ByQuery::kBytes, ByKey::kBytes),
               kGradientBytes + greatest(kGradientBytes, greatest(ByQuery::kNarrowBytes, ByKey::kNarrowBytes)));
  /// Tables whose rows are there at the same time; features of their own lie in the place of the last one's.
  static constexpr int kTables = kRowWidth > 64 ? 1 : 2;

  struct Room {
    unsigned char k[kKeys * kWidth * 2];
    unsigned char v[kKeys * kWidth * 2];
    unsigned char q[kQueries * kWidth * 2];
    unsigned char out_gradient[kQueries * kWidth * 2];
    unsigned char rows[kTables][kDistances * kRowWidth * 2];  // of tables, one for each run of distances
    /// Products of features with rows in float32. Then, in 16 bits, by keys and queries: gradients of scores, and behind those weights.
    /// Then sums by runs in the place of those.
    alignas(16) unsigned char skewed[kSkewedBytes];
    float lse[kQueries];  // times log2(e); infinity: the query is not there, or sees no key
    float delta[kQueries];
    math::PhiloxKey dropout_keys[kQueries];
    float shift[kWidth];                        // a vector that is added to the content's features
    float shifts_of_keys[kKeys];                // its product with keys
    float gradients_of_keys[kKeyShare][kKeys];  // sums of gradients over queries
    float shift_sums[kMostShifted][kWarps][kChannels];
    Runs<kDistances, kRowWidth> runs[kTables];
    alignas(8) TermHere terms[kMostTerms];

    __device__ unsigned char* gradients() { return skewed; }
    __device__ unsigned char* weights() { return skewed + kGradientBytes; }
    __device__ unsigned char* by_runs() { return skewed + kGradientBytes; }
    __device__ unsigned char* features() { return rows[kTables - 1]; }
  };
  static_assert(sizeof(Room) <= 96 * 1024);  // what every device since sm_80 has
};

/// A tile of queries and one of keys.
template <class K>
struct Step {
  const AttentionWork& work;
  const BackwardPlace& place;
  ScoreTile tile;
  int distance;  // of the first query and the first key
  typename K::Room& room;
};

/// Of a lane's numbers of a product (16 keys of the warp) x (its queries): the first key, the first query.
__device__ __forceinline__ int key_of_lane() { return 16 * key_tile_of_warp() + lane_here() / 4; }
template <int kColumns>
__device__ __forceinline__ int query_of_lane() {
  return 8 * kColumns * share_of_warp() + 2 * (lane_here() & 3);
}
/// body(number, query, key) for those numbers.
template <int kColumns, class Body>
__device__ __forceinline__ void each_of_lane(float (&s)[kColumns][4], const Body& body) {
  const int key = key_of_lane();
  const int query = query_of_lane<kColumns>();
#pragma unroll
  for (int n = 0; n < kColumns; ++n) {
#pragma unroll
    for (int x = 0; x < 4; ++x) body(s[n][x], query + 8 * n + (x & 1), key + 8 * (x >> 1));
  }
}

/// to[row] = shift . each row of `count`; all threads see the shift already.
template <class K>
__device__ inline void multiply_shift(const unsigned char* rows, int count, const float* shift, float* to) {
  for (int row = thread_here(); row < count; row += kBackwardThreads) {
    to[row] = shift_product<typename K::Element, K::kWidth>(shift, rows, row);
  }
}
/// Zeros beyond its width.
template <class K>
__device__ inline void bring_shift(const ConstTensorView& shift, int64_t head, float* to) {
  for (int c = thread_here(); c < K::kWidth; c += kBackwardThreads) {
    to[c] = c < shift.shape[3] ? element_at<float>(shift, 0, 0, head, c) : 0;
  }
}

}  // namespace phasor::cuda::attention::mma::backward
