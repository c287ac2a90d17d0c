// SPDX-License-Identifier: Apache-2.0
// The value of a pair by level 1 in pairs of float32: what the general kernel tries before the definition.
#pragma once

#include "cuda/position.hpp"
#include "cuda/rotary/row_value.hpp"
#include "math/sincos_pairs.hpp"

namespace phasor::cuda {

/// The value of a pair by level 1 in float32, where both lanes have it: whole positions, exact values, and of differences those of one
/// ladder. False: it is in doubt, or of other rows.
PHASOR_HD inline bool quick_value(const Rows& rows, const RowPlace& place, int64_t pair, CosSin<float>& value) {
  const bool moves = rows->kind == job::RowSource::Kind::differences;
  if (rows->kind == job::RowSource::Kind::tables || rows->profile.count != 0 || has_fractions(rows->positions) ||
      (rows->step_axis_stride | rows->step_lane_stride | rows->step_head_stride) != 0) {
    return false;
  }
  const int64_t axis = axis_of(rows, pair, {});
  int64_t position = whole_position(rows->positions, axis, place.batch, place.token);
  if (moves) {
    const job::PositionSource& from = rows.from()->positions;
    if (!rows->same_ladder || has_fractions(from) || !subtract(position, whole_position(from, axis, place.batch, place.token), position)) {
      return false;
    }
  }
  const math::Step step = rows.steps()[pair];
  if (math::sincos_by_pairs(math::phase128_of(step, position), position, math::pair_of(rows->amplitude), value.cos, value.sin))
    return false;
  value.sin *= static_cast<float>(rows->sine_sign);
  return true;
}

}  // namespace phasor::cuda
