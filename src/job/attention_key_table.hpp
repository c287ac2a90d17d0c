// SPDX-License-Identifier: Apache-2.0
// A table that meets keys, as a job.
#pragma once

#include <cstdint>

#include "job/attention_table_rows.hpp"

namespace phasor::job {

/// Keys are taken so many at a time: their products lie beside each other along a row of scores.
constexpr std::int64_t kKeyStrip = 16;
/// Distances that a strip of keys and a tile of queries have between them, at most, padded.
constexpr std::int64_t kKeyWindow = 112;

/// The packed table is by rising distance, query - key, one place each, with kKeyWindow copies of its ends before and behind, so that a
/// window may begin anywhere; times the scale.
struct KeyTableJob {
  TableBand band = {};
  std::int64_t width = 0;
  std::int64_t padded_width = 0;             // of features
  std::int64_t places = 0;                   // of the packed table
  const void* features = nullptr;            // (B or 1, Hk or 1, Tk and kKeyTile more, padded_width) T; keys that nobody sees are zeros
  std::int64_t feature_strides[2] = {0, 0};  // of batch row and key head; 0: shared
  PackedTable columns = {};                  // (width, places)
  PackedTable rows = {};                     // backward: (places, padded_width)
  const void* far = nullptr;                 // T: (..., 2, Tk and kKeyTile more), products with the first place and the last
  std::int64_t far_strides[2] = {0, 0};      // of batch row and head
  bool far_by_key_head = false;              // that head is the key's
  bool own_features = false;                 // not k
  void* sums = nullptr;                      // backward: (slots, places, padded_width), the table's gradient; null: not wanted
  void* feature_sums = nullptr;              // backward: (B, Hk, Tk, padded_width), of given features; null: not wanted
};

}  // namespace phasor::job
