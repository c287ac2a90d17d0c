// SPDX-License-Identifier: Apache-2.0
// Positions that are sums of gates (CoPE), as a job.
#pragma once

#include <cstdint>

namespace phasor::attend {

/// Places in the scratch of a tile of queries, in T.
struct CopeLayout {
  std::int64_t backward = 0;   // 1 in the backward, else 0
  std::int64_t running = 0;    // (kQueryTile): sums of the gates of later key tiles
  std::int64_t products = 0;   // (kQueryTile, padded_rows): of queries and rows
  std::int64_t steps = 0;      // the same: to the next row's product
  std::int64_t gates = 0;      // (kQueryTile, kKeyTile)
  std::int64_t counts = 0;     // the same: positions, cut
  std::int64_t carry = 0;      // backward: (kQueryTile): gradients by the counts of earlier key tiles
  std::int64_t gradients = 0;  // backward: (kQueryTile, padded_rows) by products
  std::int64_t by_scores = 0;  // backward: (kQueryTile, kKeyTile) by q . k
  std::int64_t later = 0;      // backward: (key tiles of a sequence, kQueryTile): `running` for each
  std::int64_t size = 0;
};

struct CopeJob {
  std::int64_t rows = 0;
  std::int64_t padded_rows = 0;  // rows, padded
  double gate_scale = 1;
  const void* columns = nullptr;  // (H or 1, padded_width, padded_rows) T: the table transposed, times the scale
  const void* packed = nullptr;   // backward: (H or 1, rows, padded_width) T, times the scale
  bool shares_heads = false;
  const void* keys_transposed = nullptr;  // (Hk, key tiles, padded_width, kKeyTile) T, as given; keys that nobody sees are zeros
  const void* keys = nullptr;             // backward: (B, Hk, Tk and kKeyTile more, padded_width) T
  std::int64_t key_strides[2] = {0, 0};   // of batch row and key head
  const void* sum_later = nullptr;        // (kKeyTile, kKeyTile) T: 1 where row >= column; a row of gates times it: sums from a key on
  const void* sum_earlier = nullptr;      // its transpose
  void* sums = nullptr;                   // backward: (slots, rows, padded_width); null: not wanted
  CopeLayout layout = {};
};

}  // namespace phasor::attend
