// SPDX-License-Identifier: Apache-2.0
// The cosines and sines of tokens that move: of the difference of two positions. A thread has one pair of every so many of the block's
// tokens, and makes a value once where they move alike, which is what moving a part of a cache is.
#pragma once

#include <cstdint>

#include "cuda/moves/shape.hpp"
#include "cuda/rotary/row_value.hpp"
#include "cuda/teams/sines.hpp"

namespace phasor::cuda {

/// Which pair a thread has, and of which tokens: `first`, and every `groups` after it.
struct MovePair {
  int pair;
  int first;
  unsigned axis;
  math::Step step;
};
PHASOR_HD inline bool pair_of_thread(const MoveAt& at, int thread, MovePair& own) {
  const MoveShape& shape = at.shape();
  own.first = (thread * shape.pair_inverse) >> 16;
  own.pair = thread - own.first * shape.cut.pairs;
  if (own.first >= shape.groups || own.first >= at.count) return false;
  own.step = at.steps[own.pair];
  own.axis = seldom(shape.cut.sines.many_axes) ? at.axis_of_pair[own.pair] : 0U;
  return true;
}

/// The value of a pair by the definition, whatever its token does.
template <class Block, class T>
PHASOR_HD inline CosSin<T> defined_value(const MoveAt& at, const MovePair& own, int token) {
  return Block::template any_row<T>(at.rows, {at.batch, at.first + token, 0, 0}, own.pair).lane[0];
}

/// How far a token moves on a pair's axis, and whether 64 bits hold that.
struct MovedBy {
  int64_t by;
  bool holds;
};

/// One value. True where it is in doubt; `careful`: then by the definition. Float64 has no other.
template <bool careful, class Block, class T>
PHASOR_HD inline bool make_moved(const MoveAt& at, const MovePair& own, int token, const MovedBy& moved, CosSin<T>& value) {
  if constexpr (sizeof(T) == sizeof(float)) {
    const SineSource& sines = at.shape().cut.sines;
    bool doubt = math::sincos_by_pairs(math::phase128_of(own.step, moved.by), moved.by, sines.amplitude, value.cos, value.sin);
    value.sin *= sines.sine_sign;
    doubt = doubt || !moved.holds;
    if (!careful || !doubt) return doubt;
  }
  value = defined_value<Block, T>(at, own, token);
  return false;
}

/// What a block holds: its tokens, and of each of them every pair's value.
template <class T>
struct alignas(16) MoveRoom {
  CosSin<T> values[kMoveValues];
  MovedToken tokens[kMoveTokens];
};

/// Makes a thread's values of every token. True where the block must take the careful way: a value in doubt, or a pair that rests, which is
/// to be left bit for bit.
template <bool careful, class Block, class T>
PHASOR_HD inline bool make_values(const MoveAt& at, const MovePair& own, MoveRoom<T>& room) {
  const MoveShape& shape = at.shape();
  CosSin<T> value{};
  int64_t last = 0;
  // Whether `value` is that of `last`, too. At 0 the sign of the sine, and in float64 the last bit, depend on the other axes.
  bool has = false;
  bool again = false;
  for (int token = own.first; token < at.count; token += shape.groups) {
    const MovedToken& moved = room.tokens[token];
    if (moved.byte == kNowhere) continue;
    const int64_t by = moved.by[own.axis];
    const bool holds = (moved.holds >> own.axis & 1) != 0;
    if (!has || !holds || by != last) {
      again = make_moved<careful, Block>(at, own, token, {by, holds}, value) || math::is_identity(value.cos, value.sin) || again;
      has = holds && by != 0 && (sizeof(T) == sizeof(float) || !shape.cut.sines.many_axes);
      last = by;
    }
    room.values[token * shape.cut.pairs + own.pair] = value;
  }
  return again;
}

}  // namespace phasor::cuda
