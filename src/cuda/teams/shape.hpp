// SPDX-License-Identifier: Apache-2.0
// How a common rotation is cut into the work of teams (teams/turn.hpp), and where one team's is.
#pragma once

#include <cstdint>

#include "cuda/rotary/rotate.hpp"
#include "cuda/rotary/row_value.hpp"
#include "cuda/teams/sines.hpp"
#include "cuda/teams/tuning.hpp"
#include "cuda/tuning.hpp"

namespace phasor::cuda {

/// How the work is cut, and what every thread reads of it. A launch finds none of its parameter in a cache, so what a plain call reads
/// comes first, in 128 bytes and in the order of use. A slice is some neighbouring pairs, a group some heads. Strides of tokens and batch
/// rows in vectors, those of heads in bytes.
struct TeamShape {
  // Where a team's work is.
  int slice_shift = 0;  // a token has 1 << slice_shift slices; some of the last may be nobody's
  int tokens = 0;
  int group_heads = 0;
  int all_heads = 0;
  SineSource sines;
  // Where a thread's vectors are.
  int first_heads = 0;  // of q; those of k follow
  int in_head = 0;      // from a head to the next, of q and of k
  const std::byte* in[2] = {};
  unsigned in_token[2] = {};
  int in_rows = 0;     // from one of a thread's heads to its next
  int first_byte = 0;  // of a head that is rotated
  int half_bytes = 0;  // from one lane of a pair to the other, in half pairing
  int out_head = 0;
  int out_rows = 0;
  std::byte* out[2] = {};
  unsigned out_token[2] = {};
  // What plain calls do not read.
  bool by_tables = false;
  bool copies_rest = false;  // channels that are not rotated, out of place
  int pairs = 0;
  int slice_pairs = 0;
  int groups = 0;
  int vectors = 0;          // of a slice: threads that a head takes
  int vector_inverse = 0;   // 65536 / vectors, rounded up: a thread's head without a division
  int rows = 0;             // heads that the team's threads have at a time
  int segment_pairs = 0;    // 0: one segment
  int segment_inverse = 0;  // 65536 / segment_pairs, rounded up
  unsigned in_batch[2] = {};
  unsigned out_batch[2] = {};
};

/// What a kernel knows before it runs. Plain calls are those of models: whole slices of one axis, one row of tokens, from phases, every
/// channel rotated. What is known is neither read nor divided by: one token is some hundred instructions, and each of them counts.
template <DType dtype_, TeamKind kind, bool plain_>
struct TeamKnows {
  static constexpr DType dtype = dtype_;
  static constexpr bool plain = plain_;
  static constexpr TeamTuning tuning = tuning_of(kind, dtype);
  static constexpr int teams = tuning.threads / tuning.team;
  static constexpr int width = static_cast<int>(kVectorBytes / bytes_of(dtype));  // values of a vector
  static constexpr int vectors = tuning.slice_pairs / width;
  static constexpr int rows = tuning.team / vectors;
  static_assert(rows * vectors == tuning.team, "every thread of a plain call has vectors");
};

struct TeamWork {
  TeamShape shape;
  RotateWork rotate;
};
struct TeamWorkAt {
  const TeamWork* work;
  Rows rows;
  const math::Step* steps;
  const std::uint8_t* axis_of_pair;

  PHASOR_HD const job::RotateJob& job() const { return work->rotate.job; }
  PHASOR_HD const TeamShape& shape() const { return work->shape; }
};

/// What one team turns.
struct TeamPlace {
  int batch;
  int token;
  int first_pair;
  int pairs;
  int first_head;
  int end_head;
};
PHASOR_HD inline int lesser(int a, int b) { return a < b ? a : b; }
/// What follows from it is to lie apart from the common way.
PHASOR_HD inline bool seldom(bool condition) { return __builtin_expect(static_cast<long>(condition), 0L) != 0; }

/// A team's work: units of slices and tokens along x, groups along y, batch rows along z. False where it is nobody's.
template <class Knows>
PHASOR_HD inline bool place_in_grid(const TeamShape& shape, const unsigned block[3], int team, TeamPlace& place) {
  const unsigned unit = block[0] * Knows::teams + static_cast<unsigned>(team);
  const int token = static_cast<int>(unit >> shape.slice_shift);
  const int slice = static_cast<int>(unit & ((1U << shape.slice_shift) - 1));
  const int head = static_cast<int>(block[1]) * shape.group_heads;
  const int end = lesser(head + shape.group_heads, shape.all_heads);
  if (Knows::teams > 1 && token >= shape.tokens) return false;
  if constexpr (Knows::plain) {
    place = {0, token, slice * Knows::tuning.slice_pairs, Knows::tuning.slice_pairs, head, end};
    return true;
  }
  const int first = slice * shape.slice_pairs;
  place = {static_cast<int>(block[2]), token, first, lesser(shape.slice_pairs, shape.pairs - first), head, end};
  return first < shape.pairs;
}

}  // namespace phasor::cuda
