// SPDX-License-Identifier: Apache-2.0
// Which calls of MLA are plain, and how they are cut.
#pragma once

#include "cuda/prepare/latent/plain.hpp"
#include "cuda/prepare/squads/work.hpp"

namespace phasor::cuda {

// How many warps a block has where tokens are many, and blocks of a multiprocessor at a time: how many registers a thread may have.
constexpr int kPlainLatentWarps = 4;
constexpr int kPlainLatentBlocks = 6;
/// Up to so many tokens a warp has the latent alone or four heads that are turned, and a block to itself; up to some, the latent alone or
/// 20 heads; beyond, the latent and 20 heads.
constexpr std::int64_t kFewPlainLatentTokens = 256;
constexpr std::int64_t kSomePlainLatentTokens = 4096;
constexpr int kManyTurnedRounds = 5;

/// Of the calls of latent kernels: k of 512 channels, normed as of Llama (rms, a weight of the tensor's dtype, which rounded values are
/// multiplied with) or not, and 64 that are turned, to a cache of the dtype or of 656 bytes, whose parts are equally far from token to
/// token; q, if there is one, of heads of 64 channels that are turned whole. One axis, from phases, every step rounded.
bool is_plain_latent(const job::PrepareJob& job);

struct PlainLatentWork {
  PlainLatentShape plain;
  SquadWork squads;  // what is asked seldom: a row in doubt, pages
};
PlainLatentWork plain_latent_work(const job::PrepareJob& job);

/// How it is cut; it changes the shape.
struct PlainLatentCall {
  int rounds;
  bool codes;
  SquadLaunch launch;
};
/// As calls of so many tokens are.
PlainLatentCall plain_latent_call(PlainLatentWork& work, std::int64_t tokens);

}  // namespace phasor::cuda
