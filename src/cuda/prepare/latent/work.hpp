// SPDX-License-Identifier: Apache-2.0
// What a launch decides about prepare_attention of MLA.
#pragma once

#include "cuda/prepare/latent/make.hpp"
#include "cuda/prepare/squads/work.hpp"

namespace phasor::cuda {

/// Blocks of a multiprocessor at a time: how many registers a thread may have. With more of them vectors are spilled.
constexpr int kLatentBlocks = 6;

/// Whether k is one wide head of 16 bits, beside operands to which no more happens than a rotation of neighbouring pairs and a factor.
bool is_latent(const job::PrepareJob& job);

LatentWork latent_work(const job::PrepareJob& job);
SquadLaunch latent_launch(const LatentWork& work);

}  // namespace phasor::cuda
