// SPDX-License-Identifier: Apache-2.0
// What a launch decides about prepare_attention of MLA.
#pragma once

#include "cuda/prepare/latent/make.hpp"
#include "cuda/prepare/squads/work.hpp"

namespace phasor::cuda {

// How many warps a block has, and blocks of a multiprocessor at a time: how many registers a thread may have.
constexpr int kLatentWarps = 4;
constexpr int kLatentBlocks = 8;
/// Up to so many tokens a warp has the wide head alone or one vector of the others a lane, and a block to itself; up to some, two vectors.
constexpr std::int64_t kFewLatentTokens = 512;
constexpr std::int64_t kSomeLatentTokens = 2048;
/// Others' vectors of a lane.
constexpr int kFewLatentEach = 1;
constexpr int kSomeLatentEach = 2;
constexpr int kMostLatentEach = 4;

/// Whether k is one wide head of 16 bits, beside operands to which no more happens than a rotation of neighbouring pairs and a factor.
bool is_latent(const job::PrepareJob& job);

LatentWork latent_work(const job::PrepareJob& job);
/// Cuts it as calls of so many tokens are cut; latent_work has done so for its own.
void cut_latent(LatentWork& work, std::int64_t tokens);
/// `shared_bytes`: of a block.
struct LatentLaunch {
  SquadLaunch grid;
  unsigned shared_bytes;
};
LatentLaunch latent_launch(const LatentWork& work);

}  // namespace phasor::cuda
