// SPDX-License-Identifier: Apache-2.0
// What a launch decides about a common prepare_attention: which calls are common, and how the work is cut.
#pragma once

#include "cuda/prepare/squads/make.hpp"
#include "cuda/teams/work.hpp"

namespace phasor::cuda {

constexpr int kMostSquadThreads = 256;

/// Whether squads can do it; the general kernel does the rest.
bool is_for_squads(const job::PrepareJob& job);

struct SquadLaunch {
  unsigned blocks[3];
  unsigned threads;
};
SquadWork squad_work(const job::PrepareJob& job);
SquadLaunch squad_launch(const SquadWork& work);

}  // namespace phasor::cuda
