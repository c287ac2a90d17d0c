// SPDX-License-Identifier: Apache-2.0
// A check that the terms of grids share.
#pragma once

#include <cstdint>

#include "cpu/attention/host/term_tensors.hpp"
#include "phasor/result.hpp"

namespace phasor::attend {

/// Positions are numbers of a grid's tokens.
Status check_tokens(const char* where, const char* side, const PositionRange& range, std::int64_t tokens);

}  // namespace phasor::attend
