// SPDX-License-Identifier: Apache-2.0
// Biases of images, as jobs: one table per pair of offsets (Swin), or rows for each of the two that meet queries (SAM).
#pragma once

#include <cstdint>

namespace phasor::attend {

/// Places behind a table, for registers that are loaded beyond its end.
constexpr std::int64_t kGridMargin = 16;

/// With the code y (2 width - 1) + x of a token, the bias of a query and a key lies at origin + code of the key - code of the query:
/// neighbours along a grid row of keys.
struct GridJob {
  std::int64_t height = 0;
  std::int64_t width = 0;
  std::int64_t origin = 0;
  bool class_token = false;  // position 0; the grid begins at 1
  bool shares_heads = false;
  const void* table = nullptr;        // (H or 1, rows and kGridMargin more) T, rows = (2 height - 1) (2 width - 1), the last one first
  const void* class_table = nullptr;  // (H or 1, 3) T: class to token, token to class, class to class
  std::int64_t rows = 0;
  void* sums = nullptr;       // backward: (slots, sum_size), as the table, then the three; null: not wanted
  std::int64_t sum_size = 0;  // rows, kGridMargin, 3
};

/// One axis: rows that meet queries, and which row each pair of coordinates takes.
struct AxisJob {
  std::int64_t queries = 0;  // extents of the two grids
  std::int64_t keys = 0;
  std::int64_t rows = 0;                 // of the table
  std::int64_t padded_rows = 0;          // rows, padded
  const void* columns = nullptr;         // (H or 1, padded_width, padded_rows) T: the table transposed, times the scale
  const void* packed = nullptr;          // backward: (H or 1, rows, padded_width) T, times the scale
  const std::int32_t* row_of = nullptr;  // (queries, keys)
  bool shares_heads = false;
  void* sums = nullptr;  // backward: (slots, rows, padded_width); null: not wanted
};
struct DecomposedJob {
  AxisJob y;
  AxisJob x;
};

/// Scratch of a DecomposedJob, in T: what each query of a tile reads for every y and for every x of keys, and the gradients by that; x
/// goes on from its beginning, so that keys at consecutive positions read neighbours wherever they begin.
struct DecomposedLayout {
  std::int64_t y_stride = 0;  // gradients are added 16 at a time, from any y on
  std::int64_t x_stride = 0;
  std::int64_t product_stride = 0;
  std::int64_t products = 0;    // (kQueryTile, product_stride): with all rows of an axis
  std::int64_t y = 0;           // (kQueryTile, y_stride)
  std::int64_t x = 0;           // (kQueryTile, x_stride)
  std::int64_t indicator = 0;   // (kKeyTile, kKeyTile): which keys of a tile are in which grid row
  std::int64_t y_gradient = 0;  // backward
  std::int64_t x_gradient = 0;
  std::int64_t size = 0;
};
DecomposedLayout layout_of(const DecomposedJob& term, bool backward);

}  // namespace phasor::attend
