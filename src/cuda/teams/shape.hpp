// SPDX-License-Identifier: Apache-2.0
// How a common rotation is cut into the work of teams (teams/turn.hpp), and where one team's is.
#pragma once

#include <cstdint>

#include "cuda/rotary/rotate.hpp"
#include "cuda/rotary/row_value.hpp"
#include "math/sincos_pairs.hpp"

namespace phasor::cuda {

/// How the work is cut, and what every thread reads of it: small, since a launch finds none of its parameter in a cache, and in the order
/// of use. A slice is some neighbouring pairs, a group some heads. Strides of tokens and batch rows in vectors, those of heads in bytes.
struct TeamShape {
  // Where a team's work is.
  int unit_shift = 0;  // units of a token: group << slice_shift | slice; some of the last may be nobody's
  int slice_shift = 0;
  int slice_pairs = 0;
  int pairs = 0;
  int tokens = 0;
  int groups = 0;
  int group_heads = 0;
  int all_heads = 0;
  // What its sines are of.
  const void* positions = nullptr;  // null: offset + token
  int64_t offset = 0;
  unsigned position_token = 0;
  unsigned position_batch = 0;
  unsigned position_axis = 0;
  bool narrow_positions = false;
  bool by_tables = false;
  bool many_axes = false;
  bool copies_rest = false;  // channels that are not rotated, out of place
  // Where a thread's vectors are.
  int vectors = 0;          // of a slice: threads that a head takes
  int vector_inverse = 0;   // 65536 / vectors, rounded up: a thread's head without a division
  int rows = 0;             // heads that the team's threads have at a time
  int first_heads = 0;      // of q; those of k follow
  int first_byte = 0;       // of a head that is rotated
  int half_bytes = 0;       // from one lane of a pair to the other, in half pairing
  int segment_pairs = 0;    // 0: one segment
  int segment_inverse = 0;  // 65536 / segment_pairs, rounded up
  const std::byte* in[2] = {};
  unsigned in_token[2] = {};
  unsigned in_batch[2] = {};
  int in_head = 0;  // from a head to the next, of q and of k
  int in_rows = 0;  // from one of a thread's heads to its next
  float sine_sign = 1;
  math::FloatPair amplitude = {1, 0};
  int out_head = 0;
  int out_rows = 0;
  std::byte* out[2] = {};
  unsigned out_token[2] = {};
  unsigned out_batch[2] = {};
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

/// False where a unit is nobody's.
PHASOR_HD inline bool place_of(const TeamShape& shape, int batch, int token, int unit, TeamPlace& place) {
  const int slice = unit & ((1 << shape.slice_shift) - 1);
  const int group = unit >> shape.slice_shift;
  const int first = slice * shape.slice_pairs;
  if (first >= shape.pairs || group >= shape.groups || token >= shape.tokens) return false;
  const int head = group * shape.group_heads;
  place = {batch, token, first, lesser(shape.slice_pairs, shape.pairs - first), head, lesser(head + shape.group_heads, shape.all_heads)};
  return true;
}
/// The same for a team of a block: teams that are warps take units one after the other, a block by itself has one in y.
template <int teams>
PHASOR_HD inline bool place_in_grid(const TeamShape& shape, const unsigned block[3], int team, TeamPlace& place) {
  const int shift = shape.unit_shift;
  const unsigned unit = block[0] * teams + static_cast<unsigned>(team);
  if constexpr (teams == 1)
    return place_of(shape, static_cast<int>(block[2]), static_cast<int>(block[0]), static_cast<int>(block[1]), place);
  return place_of(shape, static_cast<int>(block[2]), static_cast<int>(unit >> shift), static_cast<int>(unit & ((1U << shift) - 1)), place);
}

}  // namespace phasor::cuda
