// SPDX-License-Identifier: Apache-2.0
// A key-side table (DeBERTa p2c), as a job.
#pragma once

#include <cstdint>

#include "cpu/attention/job/table_rows.hpp"

namespace phasor::attend {

/// Keys are taken so many at a time: their products lie beside each other along a row of scores.
constexpr std::int64_t kKeyStrip = 16;
/// Distances that a strip of keys and a tile of queries have between them, at most, padded.
constexpr std::int64_t kKeyWindow = 112;

/// Places are by rising distance, query - key, one each, with kKeyWindow copies of the ends before and behind, so that a window may begin
/// anywhere. Lines of the packed table, times the scale: one per place; or, where neighbouring places have the same row or the next one
/// (DeBERTa's buckets), one per row, and `ranks` says which.
struct KeyTableJob {
  TableBand band = {};
  std::int64_t width = 0;
  std::int64_t padded_width = 0;  // of features
  std::int64_t places = 0;
  std::int64_t lines = 0;
  std::int64_t last_line = 0;                // of the last place
  std::int64_t line_stride = 0;              // of `columns`: lines and a register more
  const void* ranks = nullptr;               // (places and kKeyStrip more) integers as wide as T
  bool ranked = false;                       // `ranks` is given (it is null without memory, too)
  const void* features = nullptr;            // (B or 1, Hk or 1, Tk and kKeyTile more, padded_width) T; keys that nobody sees are zeros
  std::int64_t feature_strides[2] = {0, 0};  // of batch row and key head; 0: shared
  PackedTable columns = {};                  // (width, line_stride)
  PackedTable rows = {};                     // backward: (lines, padded_width)
  const void* far = nullptr;                 // T: (..., 2, Tk and kKeyTile more), products with the first line and the last
  std::int64_t far_strides[2] = {0, 0};      // of batch row and head
  bool far_by_key_head = false;              // that head is the key's
  bool own_features = false;                 // not k
  void* sums = nullptr;                      // backward: the table's gradient, lines by slots; null: not wanted
  const SlotRows* slot_rows = nullptr;       // (groups, parts)
  void* feature_sums = nullptr;              // backward: (B, Hk, Tk, padded_width), of given features; null: not wanted
};

}  // namespace phasor::attend
