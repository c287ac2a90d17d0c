// SPDX-License-Identifier: Apache-2.0
// How a common prepare_attention is cut into the work of squads (squads/head.hpp), and which head a thread has.
#pragma once

#include <cstdint>

#include "cuda/teams/sines.hpp"
#include "job/prepare/token.hpp"

namespace phasor::cuda {

/// What a thread reads of its operand: small, since a launch finds none of its parameter in a cache. Bytes, but where it says vectors.
struct SquadOperand {
  const std::byte* in = nullptr;
  unsigned in_batch = 0;  // vectors
  unsigned in_token = 0;  // vectors
  int in_head = 0;
  bool turns = false;
  bool copies = false;   // nothing happens to it
  bool queries = false;  // times the token's factor
  bool placed = false;   // goes to the token's place in the caches
  const std::byte* weight = nullptr;
  int weight_head = 0;
  bool wide_weight = false;  // f32, of a tensor of 16 bits
  HeadNorm::Kind norm = HeadNorm::Kind::none;
  bool one_plus = false;
  bool casts_before_weight = false;
  bool rounds_norm = false;  // the steps' results, to the dtype
  bool rounds_turn = false;
  bool rounds_query = false;
  float epsilon = 0;
  int first_rotated = 0;  // channel
  CacheScales::Kind scales = CacheScales::Kind::none;
  Storage storage = Storage::f32;
  bool multiplies = false;
  bool by_vectors = false;  // a thread's neighbouring channels are neighbours in the cache too
  float scale = 1;
  int out_shift = 0;  // channels of an outer step, as a power of two
  int out_inner = 0;
  int out_outer = 0;
  int out_head = 0;
  int out_half = 0;  // of plain calls: from a head's first half to its second
  int64_t out_token = 0;
  int64_t out_block = 0;
  std::byte* out = nullptr;
};

/// Slots of tokens in blocks of 1 << shift; no data: tokens have their places in another way.
struct SlotSource {
  const void* data = nullptr;
  int64_t size = 0;
  int64_t tokens = 0;  // of a batch row
  int shift = 0;
  bool narrow = false;  // int32
};

/// What a launch has decided: a block has some heads of one token, counted through q, k and v.
struct SquadShape {
  int ends[job::kPrepareOperands] = {};  // heads up to the end of each operand
  int group_heads = 0;                   // of a block
  bool followed = false;                 // by a launch of the same call, which begins without waiting for this one's end
  bool norms = false;
  bool makes_scales = false;
  int pairs = 0;
  int turning_heads = 0;  // up to the end of the last operand that turns
  SineSource sines;
  bool by_tables = false;  // given ones, in the place of sines
  SlotSource slots;
  SquadOperand operands[job::kPrepareOperands];
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

constexpr int kMostSquadPairs = 128;
/// What the threads of a block tell each other.
struct alignas(16) SquadShared {
  CosSin<float> values[kMostSquadPairs];
  job::TokenPlace place;
  float query;
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
  const int in_block = static_cast<int>(static_cast<unsigned>(thread) / Squad<dtype>::kThreads);
  const int head = place.first_head + in_block;
  if (in_block >= shape.group_heads || head >= shape.ends[2]) return {-1, 0, 0};
  const int operand = (head >= shape.ends[0] ? 1 : 0) + (head >= shape.ends[1] ? 1 : 0);
  return {operand, operand == 0 ? head : head - shape.ends[operand - 1],
          static_cast<int>(static_cast<unsigned>(thread) % Squad<dtype>::kThreads)};
}

}  // namespace phasor::cuda
