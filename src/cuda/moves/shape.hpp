// SPDX-License-Identifier: Apache-2.0
// How keys that move in place are cut into the work of blocks (moves/move.hpp), and where one block's is.
#pragma once

#include <cstdint>
#include <limits>

#include "cuda/divided.hpp"
#include "cuda/teams/memory.hpp"
#include "cuda/teams/shape.hpp"
#include "cuda/tuning.hpp"

namespace phasor::cuda {

/// What every thread reads, in the order of use. A row is one head of one of the block's tokens.
struct MoveShape {
  int tokens = 0;  // of a batch row
  int block_tokens = 0;
  int heads = 0;
  unsigned head_inverse = 0;       // 2^24 / heads, rounded up: which token a row is of, without a division
  const int64_t* slots = nullptr;  // of a paged cache; null: token t lies at t
  Divisor page;                    // slots of a page
  std::byte* keys = nullptr;       // read and written
  int64_t strides[3] = {0, 0, 0};  // in bytes: from a page (batch row), slot (token) and head to the next
  int pair_inverse = 0;            // 65536 / pairs, rounded up
  int groups = 0;                  // how often a block's threads have every pair: each group has every so many tokens
  SineSource from;                 // where keys were; where they will be: cut.sines
  TeamShape cut;                   // a head's vectors and segments, the sines' amplitude and sign
};

struct MoveWork {
  MoveShape shape;
  RotateWork rotate;
};

/// What a kernel knows before it runs, as teams/memory.hpp asks for it.
template <DType dtype_>
struct MoveKnows {
  static constexpr DType dtype = dtype_;
  static constexpr bool plain = false;
  static constexpr int width = static_cast<int>(kVectorBytes / bytes_of(dtype));
};

/// Work where it lies, and which tokens of it a block moves.
struct MoveAt {
  const MoveWork* work;
  Rows rows;
  const math::Step* steps;
  const std::uint8_t* axis_of_pair;
  int batch = 0;
  int first = 0;  // token
  int count = 0;

  PHASOR_HD const MoveShape& shape() const { return work->shape; }
  /// All pairs of a head, as teams/memory.hpp asks for them.
  PHASOR_HD TeamPlace whole() const { return {0, 0, 0, work->shape.cut.pairs, 0, 0}; }
};
/// Which tokens a block of the grid has: sets these of `at`.
PHASOR_HD inline MoveAt in_grid(MoveAt at, unsigned block, unsigned batch) {
  at.batch = static_cast<int>(batch);
  at.first = static_cast<int>(block) * at.shape().block_tokens;
  at.count = lesser(at.shape().block_tokens, at.shape().tokens - at.first);
  return at;
}

/// A head of one of a block's tokens.
struct MovedHead {
  int token;
  int head;
};
PHASOR_HD inline MovedHead moved_head(const MoveShape& shape, int row) {
  const int token = static_cast<int>((static_cast<unsigned>(row) * shape.head_inverse) >> 24);
  return {token, row - token * shape.heads};
}

/// Where one of a block's tokens lies, and how far it moves on each axis: found once, by one thread, for all.
struct MovedToken {
  int64_t byte;    // from the first of all keys; kNowhere: it is not moved
  unsigned holds;  // a bit for each axis: 64 bits hold how far it moves
  int64_t by[job::kMaxAxes];
};
constexpr int64_t kNowhere = std::numeric_limits<int64_t>::min();

PHASOR_HD inline int64_t byte_of(const MoveShape& shape, int64_t page, int64_t place) {
  return page * shape.strides[0] + place * shape.strides[1];
}
PHASOR_HD inline void look_up_token(const MoveAt& at, int index, MovedToken& moved) {
  const MoveShape& shape = at.shape();
  const int token = at.first + index;
  const SineSource& to = shape.cut.sines;
  const int64_t slot = shape.slots == nullptr ? 0 : shape.slots[token];  // asked for first
  const int axes = static_cast<int>(at.rows->positions.axes);
  unsigned holds = 0;
  for (int axis = 0; axis < axes; ++axis) {
    const auto a = static_cast<unsigned>(axis);
    const int64_t before = position_of(shape.from, position_bits(shape.from, a, at.batch, token));
    holds |= subtract(position_of(to, position_bits(to, a, at.batch, token)), before, moved.by[axis]) ? 1U << a : 0U;
  }
  moved.holds = holds;
  if (shape.slots == nullptr) {
    moved.byte = byte_of(shape, at.batch, token);
  } else {
    const int64_t page = divided(slot, shape.page);
    moved.byte = slot < 0 ? kNowhere : byte_of(shape, page, slot - page * static_cast<int64_t>(shape.page.by));
  }
}

}  // namespace phasor::cuda
