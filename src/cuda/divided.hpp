// SPDX-License-Identifier: Apache-2.0
// Division of counts: a GPU divides 32 bits much faster than 64, and nearly every count has fewer.
#pragma once

#include <cstdint>

#include "math/portable.hpp"

namespace phasor::cuda {

using std::int64_t;

/// n / by, neither of them negative.
PHASOR_HD inline int64_t divided(int64_t n, int64_t by) {
  const auto narrow = static_cast<std::uint32_t>(n);
  const auto narrow_by = static_cast<std::uint32_t>(by);
  return n == narrow && by == narrow_by ? narrow / narrow_by : n / by;
}

}  // namespace phasor::cuda
