// SPDX-License-Identifier: Apache-2.0
// Weights of some rows, as a job: where the block begins and where it goes.
#pragma once

#include <cstdint>
#include <span>

#include "phasor/tensor_view.hpp"

namespace phasor::attend {

struct WeightsJob {
  std::int64_t batch = 0;
  std::int64_t query = 0;
  std::int64_t head = 0;
  TensorView weights;                   // of T
  TensorView factors;                   // of T; data null: not wanted
  std::span<const std::int64_t> tiles;  // query tiles that hold some of the rows
};

}  // namespace phasor::attend
