// SPDX-License-Identifier: Apache-2.0
// A query-side table (Shaw, DeBERTa c2p), as a job.
#pragma once

#include <cstdint>

#include "cpu/attention/job/table_rows.hpp"
#include "phasor/tensor_view.hpp"

namespace phasor::attend {

struct QueryTableJob {
  TableParts table = {};          // times the scale, but for its sums
  ConstTensorView features = {};  // strides 0 where shared; data null: q
  const void* shift = nullptr;    // (H, padded_width) T; null: none
  void* shift_sums = nullptr;     // backward: (slots, padded_width); null: not wanted
  void* feature_sums = nullptr;   // backward: (parts, B, H, Tq, padded_width); null: not wanted
};

}  // namespace phasor::attend
