// SPDX-License-Identifier: Apache-2.0
// What a launch decides about a common rotation: which calls are common, what kind of team, how the work is cut.
#pragma once

#include "cuda/rotary/team.hpp"

namespace phasor::cuda {

/// By the number of tokens.
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
};
PHASOR_HD constexpr TeamTuning tuning_of(TeamKind kind, DType dtype) {
  if (dtype == DType::f64) {  // a sine of float64 costs much more: more heads share it
    const bool few = kind == TeamKind::few;
    return {few ? 128 : 160, few ? 32 : 160, few ? 32 : 64, few ? 3 : 4, 1, false, true};
  }
  switch (kind) {
    case TeamKind::few:
      return {128, 32, 32, 3, 1, false, false};
    case TeamKind::some:
      return {128, 32, 32, 5, 4, false, false};
    case TeamKind::many:
      return {64, 64, 64, 5, 8, true, false};
    default:
      return {160, 160, 64, 2, 7, false, true};
  }
}
/// Up to so many tokens.
constexpr std::int64_t kFewTokens = 512;
constexpr std::int64_t kSomeTokens = 1100;
constexpr std::int64_t kManyTokens = 8192;

/// Bytes of host tables that travel along: 128 pairs.
constexpr std::size_t kTeamTableBytes = 4 * 1024;
constexpr std::int64_t kMostTeamPairs = 112;

/// Whether teams can do it; the general kernel does the rest.
bool is_common(const RotateWork& work);

TeamKind team_kind(const job::RotateJob& job);
/// The work cut for teams of a kind, and the grid.
TeamWork team_work(const RotateWork& work, TeamKind kind);
struct TeamGrid {
  unsigned blocks[3];
  unsigned threads;
};
TeamGrid team_grid(const TeamWork& work, TeamKind kind);

}  // namespace phasor::cuda
