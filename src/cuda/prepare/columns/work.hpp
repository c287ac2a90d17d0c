// SPDX-License-Identifier: Apache-2.0
// Which values go to a cache by channels, and how a launch cuts them.
#pragma once

#include "cuda/prepare/columns/make.hpp"
#include "cuda/prepare/squads/work.hpp"

namespace phasor::cuda {

/// Up to so many tokens they go with the others, by squads.
constexpr std::int64_t kFewColumnTokens = 128;

/// Whether the last operand is such values: of 16 bits, to which nothing happens, in a cache of their dtype or e4m3 with one scale or none,
/// whose tokens are neighbours and whose channels are not.
bool has_columns(const job::PrepareJob& job);
/// A call that squads do, of its last operand.
ColumnWork column_work(const job::PrepareJob& job);
SquadLaunch column_launch(const ColumnWork& work);

}  // namespace phasor::cuda
