// SPDX-License-Identifier: Apache-2.0
// Dropout, as a job: what decides a weight (math/philox.hpp) and what the kept ones are multiplied by.
#pragma once

#include <cstdint>

namespace phasor::attend {

struct DropoutJob {
  bool present = false;
  std::uint32_t threshold = 0;  // words below it drop their weight
  double factor = 1;            // of the others: 1 / (1 - probability)
  std::uint64_t seed = 0;
  std::uint64_t offset = 0;
  std::uint32_t first_head = 0;
  std::uint32_t first_sequence = 0;
};

}  // namespace phasor::attend
