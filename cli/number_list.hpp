// SPDX-License-Identifier: Apache-2.0
// Lists of positions as people type them: "1,10,100", "0:11" (0 to 10), "0:100:10".
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace phasor::cli {

/// Throws UsageError (used wrongly), naming `option`, for what is no list or has more than a million numbers.
std::vector<std::int64_t> parse_numbers(const std::string& option, const std::string& text);

}  // namespace phasor::cli
