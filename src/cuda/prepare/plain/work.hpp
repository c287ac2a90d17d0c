// SPDX-License-Identifier: Apache-2.0
// Which calls of prepare_attention are plain, and how they are cut.
#pragma once

#include "cuda/prepare/plain/make.hpp"
#include "cuda/prepare/squads/work.hpp"

namespace phasor::cuda {

// Measured on an H200 (docs/design/prepare.md).
constexpr int kFewPlainThreads = 64;
constexpr int kMostPlainThreads = 192;
/// Up to so many tokens a thread has one head, and blocks are small.
constexpr std::int64_t kFewPlainTokens = 512;

/// Blocks of a multiprocessor that have tokens together, calls of so many tokens for each of them at least, and so many times as many
/// blocks as there are at a time at most: multiprocessors are not equally far from memory, and who is done takes the next one. Pages alone
/// are worth it, which take three reads one after the other to be found.
constexpr int kWalkPlainBlocks = 6;
constexpr std::int64_t kLeastWalk = 4;
constexpr std::int64_t kMostWalkWaves = 64;
constexpr bool kOnlyPagesWalk = true;

/// Of the work of squads: heads of 128 channels of 16 bits, all of them rotated by halves, norms as of Llama and Qwen (rms, a weight of the
/// tensor's dtype for all heads, which rounded values are multiplied with) or none, caches of the tensor's dtype or e4m3 in which eight
/// neighbouring channels are one access (all of a head's, or vLLM's older keys, whose vectors lie a stride apart), scales that are one
/// number, every step rounded.
bool is_plain(const SquadWork& work);

/// How a plain call is cut; it changes the shape.
struct PlainCall {
  int each;
  bool norms;
  bool codes;
  bool walks;
  SquadLaunch launch;
};
PlainCall plain_call(SquadWork& work, bool few);
/// Whether blocks that walk are an answer for the call; the call by so many of them, or by as many as have work; and by a device that has
/// so many at a time, unless the call is too small.
bool may_walk(const SquadWork& work, const PlainCall& call);
PlainCall walking(const PlainCall& call, std::int64_t blocks);
PlainCall walking_on(const PlainCall& call, std::int64_t at_a_time);
inline bool has_few_tokens(const job::PrepareJob& job) { return job.turn.batch * job.turn.tokens <= kFewPlainTokens; }

}  // namespace phasor::cuda
