// SPDX-License-Identifier: Apache-2.0
// Lists of positions as options.
#pragma once

#include "figures/number_list.hpp"
#include "uses.hpp"

namespace phasor::cli {

/// read_numbers; throws UsageError (used wrongly).
Numbers parse_numbers(const std::string& option, const std::string& text);

}  // namespace phasor::cli
