// SPDX-License-Identifier: Apache-2.0
// What a launch decides about a common rotation: which calls are common, what kind of team, how the work is cut.
#pragma once

#include "cuda/teams/turn.hpp"

namespace phasor::cuda {

constexpr std::int64_t kMostTeamPairs = 128;
/// Bytes of host tables that travel along: a step and an axis of each pair.
constexpr std::size_t kTeamTableBytes = kMostTeamPairs * (sizeof(math::Step) + 1);
static_assert(kTeamTableBytes % 16 == 0);

/// Whether threads make sines of these rows by SineSource.
bool has_team_sines(const job::RowSource& rows, std::int64_t pairs);
/// Whether teams can do it; the general kernel does the rest.
bool is_common(const RotateWork& work);

TeamKind team_kind(const job::RotateJob& job);
/// The work cut for teams of a kind, and the grid.
TeamWork team_work(const RotateWork& work, TeamKind kind);
/// Which kernel it has.
struct TeamCall {
  Pairing pairing;
  TeamKind kind;
  bool plain;
};
TeamCall team_call(const TeamWork& work, TeamKind kind);
struct TeamGrid {
  unsigned blocks[3];
  unsigned threads;
};
TeamGrid team_grid(const TeamWork& work, TeamKind kind);

}  // namespace phasor::cuda
