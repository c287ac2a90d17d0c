// SPDX-License-Identifier: Apache-2.0
// Kinds of teams, and their numbers: speed depends on them, results do not.
#pragma once

#include <cstdint>

#include "math/portable.hpp"
#include "phasor/tensor_view.hpp"

namespace phasor::cuda {

/// By the number of tokens; f64 has the first and the last alone.
enum class TeamKind : std::uint8_t { few, some, many, most };
constexpr TeamKind kTeamKinds[] = {TeamKind::few, TeamKind::some, TeamKind::many, TeamKind::most};

// Measured on an H200 (docs/design/cuda.md).
struct TeamTuning {
  int threads;       // of a block
  int team;          // of a team: a warp, or the block
  int slice_pairs;   // at most
  int each;          // heads of a thread, at most
  int least_blocks;  // of a multiprocessor at a time: how many registers a thread may have
  bool streams;      // past the caches
  bool parts;        // values by parts: fewer registers
  bool asks_first;   // for what the sines need, before the vectors
};
PHASOR_HD constexpr TeamTuning tuning_of(TeamKind kind, DType dtype) {
  if (dtype == DType::f64) {  // a sine of float64 costs much more: more heads share it
    const bool few = kind == TeamKind::few;
    return {few ? 128 : 160, few ? 32 : 160, few ? 32 : 64, few ? 3 : 4, 1, false, true, false};
  }
  switch (kind) {
    case TeamKind::few:
      return {64, 32, 32, 2, 1, false, false, false};
    case TeamKind::some:
      return {128, 32, 32, 5, 4, false, false, true};
    case TeamKind::many:
      return {64, 64, 64, 5, 8, true, false, false};
    default:
      return {160, 160, 64, 2, 7, false, true, true};
  }
}
/// Whether plain calls (TeamKnows) have kernels of their own: few tokens wait for instructions, many for memory, and then they were slower.
PHASOR_HD constexpr bool knows_plain(TeamKind kind) { return kind == TeamKind::few || kind == TeamKind::some; }
/// Up to so many tokens.
constexpr std::int64_t kFewTokens = 512;
constexpr std::int64_t kSomeTokens = 1100;
constexpr std::int64_t kManyTokens = 8192;

}  // namespace phasor::cuda
