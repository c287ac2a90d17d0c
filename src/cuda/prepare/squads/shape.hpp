// SPDX-License-Identifier: Apache-2.0
// How a common prepare_attention is cut into the work of squads (squads/head.hpp), and which head a thread has.
#pragma once

#include <cstdint>

#include "cuda/teams/sines.hpp"
#include "job/prepare/token.hpp"

namespace phasor::cuda {

/// What a launch has decided: a block has some heads of one token, counted through q, k and v.
struct SquadShape {
  int ends[job::kPrepareOperands] = {};         // heads up to the end of each operand
  int group_heads = 0;                          // of a block
  int sink_shift[job::kPrepareOperands] = {};   // channels of an outer step of the cache, as a power of two
  bool by_vectors[job::kPrepareOperands] = {};  // a thread's neighbouring channels are neighbours in the cache too
  bool weight_vectors[job::kPrepareOperands] = {};
  bool norms = false;
  bool makes_scales = false;
  SineSource sines;
};
struct SquadWork {
  SquadShape shape;
  job::PrepareJob job;
};
/// Work where it lies, in a kernel's parameter or on the host.
struct SquadWorkAt {
  const SquadWork* work;
  Rows rows;
  const math::Step* steps;
  const std::uint8_t* axis_of_pair;

  PHASOR_HD const job::PrepareJob& job() const { return work->job; }
  PHASOR_HD const SquadShape& shape() const { return work->shape; }
};

struct SquadPlace {
  int batch;
  int token;
  int first_head;
};
/// A thread: its operand and head, and which of the head's threads it is. Nobody's: operand -1.
struct SquadSpot {
  int operand;
  int head;
  int lane;
};

/// A squad is as many threads as 32 channels take, one vector each: then the norm's 32 partial sums lie in its threads side by side, and
/// with the channels c and c + 32 i in one thread both lanes of a pair are there.
template <DType dtype>
struct Squad {
  static constexpr int kWidth = static_cast<int>(16 / bytes_of(dtype));  // channels of a vector
  static constexpr int kThreads = math::kNormPartials / kWidth;
};

template <DType dtype>
PHASOR_HD inline SquadSpot spot_of(const SquadShape& shape, const SquadPlace& place, int thread) {
  const int in_block = thread / Squad<dtype>::kThreads;
  const int head = place.first_head + in_block;
  if (in_block >= shape.group_heads || head >= shape.ends[2]) return {-1, 0, 0};
  const int operand = (head >= shape.ends[0] ? 1 : 0) + (head >= shape.ends[1] ? 1 : 0);
  return {operand, operand == 0 ? head : head - shape.ends[operand - 1], thread % Squad<dtype>::kThreads};
}

}  // namespace phasor::cuda
