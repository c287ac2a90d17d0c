// SPDX-License-Identifier: Apache-2.0
// Sequences one behind another: which of them a token, or anything else that is numbered through them, belongs to.
#pragma once

#include <cstdint>

#include "math/portable.hpp"

namespace phasor::cuda {

/// The last of `count` that begins at or before n, 0 where none does; begin(i) does not fall. Empty ones begin where the next one does.
template <class Begin>
PHASOR_HD inline std::int64_t last_begun(std::int64_t count, std::int64_t n, const Begin& begin) {
  std::int64_t low = 0;
  std::int64_t high = count - 1;
  while (low < high) {
    const std::int64_t middle = (low + high + 1) / 2;
    if (begin(middle) <= n) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low;
}

}  // namespace phasor::cuda
