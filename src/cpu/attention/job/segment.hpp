// SPDX-License-Identifier: Apache-2.0
// A score for keys of the query's segment and one for the others, as a job.
#pragma once

#include <cstdint>

namespace phasor::attend {

struct SegmentJob {
  const void* table = nullptr;         // (H or 1, 2, padded_width) T, times the scale: the same segment, another
  std::int64_t table_head_stride = 0;  // 0: shared
  const void* constants = nullptr;     // (H, 2) T: scale shift . table
  const void* query_segments = nullptr;
  const void* key_segments = nullptr;     // T: (B or 1, Tq), and (B or 1, Tk and kKeyTile more)
  std::int64_t query_segment_stride = 0;  // 0: batch rows share
  std::int64_t key_segment_stride = 0;
  // Backward: for each slot, with dz the sums of ds per row and kind: (2, padded_width) of dz q, then 2 of dz. Null: not wanted.
  void* sums = nullptr;
  std::int64_t sum_size = 0;
};

}  // namespace phasor::attend
