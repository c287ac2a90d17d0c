// SPDX-License-Identifier: Apache-2.0
// Lists of positions as people type them, and lists spread between two ends.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "phasor/result.hpp"

namespace phasor::figures {

using Numbers = std::vector<std::int64_t>;

/// "1,10,100", "0:11" (0 to 10), "0:100:10". An error, naming `option`, for what is no list or has more than a million numbers.
Result<Numbers> read_numbers(const std::string& option, const std::string& text);

/// Whole numbers from `first` to `last`, both there, each once: evenly spread, or in equal ratios.
struct Spread {
  std::int64_t first = 0;
  std::int64_t last = 0;
  std::int64_t points = 128;  // at most
  bool log = false;           // from 1 on; a first of 0 stays
};
/// An error, naming `option`, for ends that are not 0 or above and rising, and for less than 2 points.
Result<Numbers> spread_numbers(const std::string& option, const Spread& spread);

}  // namespace phasor::figures
