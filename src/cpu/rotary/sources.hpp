// SPDX-License-Identifier: Apache-2.0
// Sources of rows for one part of what a source is for: a head, the second lane of every pair, tokens from one on.
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

/// Lane 1 of per-channel frequencies, as if it were lane 0.
inline job::RowSource source_of_second_lane(const job::RowSource& source) {
  job::RowSource second = source;
  second.steps += source.step_lane_stride;
  second.turn_cos += source.step_lane_stride;
  second.turn_sin += source.step_lane_stride;
  second.profile.first += source.step_lane_stride;
  if (second.axis_of_pair != nullptr) second.axis_of_pair += source.step_lane_stride;
  return second;
}

/// Given tables from value `cos` and `sin` of theirs on.
inline job::RowSource source_of_tables(const job::RowSource& source, std::int64_t cos, std::int64_t sin) {
  job::RowSource from = source;
  from.tables.cos += cos * bytes_of(source.tables.dtype);
  from.tables.sin += sin * bytes_of(source.tables.dtype);
  return from;
}

/// A source whose row 0 is that of token t of batch row b.
inline job::RowSource source_from(const job::RowSource& source, std::int64_t b, std::int64_t t) {
  if (source.kind == job::RowSource::Kind::tables) {
    const job::TableSource& tables = source.tables;
    return source_of_tables(source, b * tables.cos_strides[0] + t * tables.cos_strides[1],
                            b * tables.sin_strides[0] + t * tables.sin_strides[1]);
  }
  job::RowSource from = source;
  job::PositionSource& p = from.positions;
  if (p.data == nullptr) {
    p.offset = static_cast<std::int64_t>(static_cast<std::uint64_t>(p.offset) + static_cast<std::uint64_t>(t));
  } else {
    const std::int64_t size = p.type == PositionType::i32 ? 4 : 8;
    p.data = static_cast<const std::byte*>(p.data) + (b * p.batch_stride + t * p.token_stride) * size;
  }
  return from;
}

}  // namespace phasor::cpu
