// SPDX-License-Identifier: Apache-2.0
// What a launch decides about a common prepare_attention: which calls are common, and how the work is cut.
#pragma once

#include "cuda/prepare/squads/make.hpp"
#include "cuda/teams/work.hpp"

namespace phasor::cuda {

// Measured on an H200 (docs/design/prepare.md).
constexpr int kMostSquadThreads = 256;
constexpr int kFewSquadThreads = 64;
/// Up to so many tokens blocks are small: more of them work at the same time.
constexpr std::int64_t kFewSquadTokens = 512;
/// Blocks of a multiprocessor at a time, by the vectors of a thread: how many registers it may have.
PHASOR_HD constexpr int squad_blocks(int vectors, bool norms) { return vectors > 4 ? 2 : norms ? 3 : 4; }

/// Whether squads can do it; the general kernel does the rest.
bool is_for_squads(const job::PrepareJob& job);

struct SquadLaunch {
  unsigned blocks[3];
  unsigned threads;
};
SquadWork squad_work(const job::PrepareJob& job);
SquadLaunch squad_launch(const SquadWork& work);

}  // namespace phasor::cuda
