// SPDX-License-Identifier: Apache-2.0
// What a block of attention with CoPE has in shared memory besides its rows: how much that is depends on the rows of the table, so that
// which calls are taken does, too.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda/attention/backward/place.hpp"

namespace phasor::cuda::attention::mma::cope {

/// Queries of a block: four warps have 16 each.
constexpr int kQueries = 64;
constexpr int kWarps = 4;
/// What every device since sm_80 has for a block.
constexpr int64_t kMostBytes = int64_t{96} * 1024;
/// Beyond this nothing fits: keeps sums of bytes from overflow.
constexpr int64_t kMostRows = 4096;

/// Columns, one for each row of the table: as many as products have that are made 16 at a time.
constexpr int columns_of(int64_t rows) { return static_cast<int>((rows + 15) / 16 * 16); }
/// Numbers from one query to the next: of products in float32, so that eight queries are in different banks; of their gradients in 16
/// bits, an odd number of 16 bytes for matrices.
constexpr int product_pitch(int64_t rows) { return columns_of(rows) + 4; }
constexpr int gradient_pitch(int64_t rows) { return columns_of(rows) + 8; }
constexpr int64_t product_bytes(int64_t rows) { return int64_t{4} * kQueries * product_pitch(rows); }
constexpr int64_t gradient_bytes(int64_t rows) { return int64_t{2} * kQueries * gradient_pitch(rows); }

/// Of the backward, whose tiles of keys are those of the general one: so are the places of counts at each. Behind it: the products with the
/// table's rows, and their gradients.
template <int kWidth>
struct Room {
  static constexpr int kKeys = 32;
  static constexpr int kPairPitch = 2 * kKeys + 2;         // of float32
  static constexpr int kNarrowPitch = (kKeys + 8) * 2;     // bytes
  static constexpr int kNarrow = kQueries * kNarrowPitch;  // bytes
  static constexpr int kPairs = 4 * kQueries * kPairPitch;
  static constexpr int kScores = 2 * kNarrow > kPairs ? 2 * kNarrow : kPairs;

  /// Where the block is: here, since registers are few.
  BackwardPlace place;
  QueryTile queries;
  unsigned char filler[16 - (sizeof(BackwardPlace) + sizeof(QueryTile)) % 16];
  unsigned char q[kQueries * kWidth * 2];
  unsigned char out_gradient[kQueries * kWidth * 2];
  unsigned char k[kKeys * kWidth * 2];  // rows of the table are staged here, too
  unsigned char v[kKeys * kWidth * 2];
  /// By queries: counts and gradients of scores side by side; then gradients of q . k and behind them weights, in 16 bits.
  alignas(16) unsigned char scores[kScores];
  float lse[kQueries];  // times log2(e); infinity: the query is not there, or sees no key
  float delta[kQueries];
  /// Where a query's counts are by now, and the gradients of its products with that row and the one above, so far.
  std::int32_t lower[kQueries];
  float at_lower[kQueries];
  float above[kQueries];
  std::int32_t open[kWarps];  // 1: some query of the warp has not counted to the last row yet
};
static_assert(sizeof(Room<64>) % 16 == 0 && sizeof(Room<128>) % 16 == 0);

constexpr int64_t backward_bytes(int width, int64_t rows) {
  return static_cast<int64_t>(width > 64 ? sizeof(Room<128>) : sizeof(Room<64>)) + product_bytes(rows) + gradient_bytes(rows);
}
constexpr bool fits_backward(int width, int64_t rows) { return rows <= kMostRows && backward_bytes(width, rows) <= kMostBytes; }
static_assert(fits_backward(64, 64) && fits_backward(128, 64));  // the table of the paper's language models

}  // namespace phasor::cuda::attention::mma::cope
