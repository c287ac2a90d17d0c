// SPDX-License-Identifier: Apache-2.0
// Where a pair's two channels are, and which channel of one pairing is which of the other: the permutation of weights.
#pragma once

#include "math/portable.hpp"

namespace phasor::math {

/// Channel of a lane (0 or 1) of a pair, within the rotary width.
inline i64 channel_of(i64 pair, i64 lane, i64 pairs, bool interleaved) { return interleaved ? 2 * pair + lane : pair + lane * pairs; }

/// The channel of the pairing `from` that is channel `to_channel` of the pairing `to`.
inline i64 permuted_from(i64 to_channel, i64 pairs, bool from_interleaved, bool to_interleaved) {
  const i64 pair = to_interleaved ? to_channel / 2 : to_channel % pairs;
  const i64 lane = to_interleaved ? to_channel % 2 : to_channel / pairs;
  return channel_of(pair, lane, pairs, from_interleaved);
}

}  // namespace phasor::math
