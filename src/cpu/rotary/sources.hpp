// SPDX-License-Identifier: Apache-2.0
// Sources of rows for one part of what a source is for: a head, or the second lane of every pair.
#pragma once

#include "job/rotary.hpp"

namespace phasor::cpu {

/// The rows of one head, where heads have ladders or tables of their own.
inline job::RowSource source_of_head(const job::RowSource& source, std::int64_t head) {
  job::RowSource of_head = source;
  of_head.steps += head * source.step_head_stride;
  of_head.turn_cos += head * source.step_head_stride;
  of_head.turn_sin += head * source.step_head_stride;
  of_head.tables.cos += head * source.tables.cos_head_stride * bytes_of(source.tables.dtype);
  of_head.tables.sin += head * source.tables.sin_head_stride * bytes_of(source.tables.dtype);
  return of_head;
}

/// Lane 1 of tiled lanes, as if it were lane 0.
inline job::RowSource source_of_second_lane(const job::RowSource& source) {
  job::RowSource second = source;
  second.steps += source.step_lane_stride;
  second.turn_cos += source.step_lane_stride;
  second.turn_sin += source.step_lane_stride;
  second.profile.first += source.step_lane_stride;
  if (second.axis_of_pair != nullptr) second.axis_of_pair += source.step_lane_stride;
  return second;
}

}  // namespace phasor::cpu
