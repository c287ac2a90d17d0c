// SPDX-License-Identifier: Apache-2.0
// A table that meets queries, as a job.
#pragma once

#include <cstdint>

#include "job/attention/table_rows.hpp"
#include "phasor/tensor_view.hpp"

namespace phasor::job {

struct QueryTableJob {
  TableParts table = {};          // times the scale, but for its sums
  ConstTensorView features = {};  // strides 0 where shared; data null: q
  const void* shift = nullptr;    // (H, places) T; null: none
  void* shift_sums = nullptr;     // backward: (slots, places); null: not wanted
  void* feature_sums = nullptr;   // backward: (parts, B, H, Tq, places); null: not wanted
};

}  // namespace phasor::job
