// SPDX-License-Identifier: Apache-2.0
// How prepare_attention of MLA is cut: k is one wide head, the latent and what is rotated of it, which a block of threads has together, a
// vector each; beside it a thread has one vector of the other operands.
#pragma once

#include "cuda/prepare/squads/make.hpp"

namespace phasor::cuda {

constexpr int kLatentThreads = 128;
/// Parts of a head that go to places of their own.
constexpr int kLatentSinks = 2;

struct LatentSink {
  SquadOperand as;  // how its channels lie
  int first = 0;    // channel
  int count = 0;
};
struct LatentShape {
  int operand = 0;  // the wide head's
  int vectors = 0;  // of it
  LatentSink sinks[kLatentSinks];
  int sink_count = 0;
  int ends[job::kPrepareOperands] = {};     // vectors of others up to the end of each operand
  int of_head[job::kPrepareOperands] = {};  // vectors of one of its heads
};
struct LatentWork : SquadWork {
  LatentShape latent;
};

/// What the threads of a block tell each other.
struct LatentShared : SquadShared {
  alignas(16) Words row[kLatentThreads];
  float sums[math::kNormPartials];
  float most[kLatentThreads];  // the largest magnitude of each vector
};

}  // namespace phasor::cuda
