// SPDX-License-Identifier: Apache-2.0
// A bias given in full, as a job.
#pragma once

#include <array>
#include <cstdint>

#include "phasor/tensor_view.hpp"

namespace phasor::attend {

struct DenseJob {
  ConstTensorView bias = {};  // (B, Tq, H, Tk), stride 0 on shared axes
  // Backward. A gradient with an element a score is added to where it lies: no other task has that score. One with shared axes is summed
  // in T, apart by (sequence, part, head, query, key) where tasks would meet; strides of 0 where they do not, or an axis is shared.
  TensorView gradient = {};  // data null: not wanted, or summed
  void* sums = nullptr;
  std::array<std::int64_t, 5> sum_extents{};
  std::array<std::int64_t, 5> sum_strides{};
  bool sums_key_heads = false;  // the query heads of a key head are one task: they share a sum
};

}  // namespace phasor::attend
