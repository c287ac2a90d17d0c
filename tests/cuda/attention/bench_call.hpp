// SPDX-License-Identifier: Apache-2.0
// A call of attention as bench/gpu/attention_bench.py writes it down.
#pragma once

#include <cstdint>

/// (B, H, T, D) in memory, bf16, contiguous; pointers are of the device.
struct BenchCall {
  void* q;
  void* k;
  void* v;
  void* out;
  float* lse;
  std::int64_t batch;
  std::int64_t heads;
  std::int64_t key_heads;
  std::int64_t tokens;
  std::int64_t width;
  std::int64_t causal;
  double scale;
  const float* diagonal;  // (heads, distances); null: none
  std::int64_t first_distance;
  std::int64_t distances;
  std::int64_t skip;
  void* table;  // (heads, table_rows, width), as far to the left as to the right; null: none
  std::int64_t table_rows;
  const float* table_shift;    // (heads, width), added to q where it meets the table; null: none
  const float* content_shift;  // the same where it meets keys
  void* workspace;
  void* stream;
  // Of the backward alone.
  void* out_gradient;
  void* dq;
  void* dk;
  void* dv;
  float* distances_gradient;  // (heads, distances); null: not wanted
  std::int64_t deterministic;
  void* value_table;            // as `table`, added to values; null: none
  float* table_gradient;        // (heads, table_rows, width), added to; of Hopper's kernels (table_rows, heads, width), written
  float* value_table_gradient;  // the same; null where there is no such table
  std::int64_t workspace_bytes;
  // Inkling, forward on Hopper: they meet the table in the place of q, whose rows are then of keys before a query alone, zeros beyond.
  void* features;  // (B, heads, T, features_width); null: none
  std::int64_t features_width;
  // DeBERTa, forward on Hopper: as `table`, met by keys; then tables of both sides are strips. null: none.
  void* key_table;
};
