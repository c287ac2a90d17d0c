// SPDX-License-Identifier: Apache-2.0
// Rows of cosines and sines of some tokens, by the kernels of cos_sin, for heads that are made ready and for their gradients.
#pragma once

#include <algorithm>
#include <utility>

#include "cpu/common/targets.hpp"
#include "cpu/common/task_grid.hpp"
#include "cpu/rotary/sources.hpp"
#include "job/prepare/token.hpp"

namespace phasor::cpu {

/// Rows of some tokens: as many as fit.
inline constexpr std::int64_t kRowValues = 4096;
inline constexpr std::int64_t kMostRows = 32;

class TokenRows {
 public:
  TokenRows(const job::PrepareJob& job, const RotaryKernels& kernels) : job_(job), kernels_(kernels) {}

  const job::RowSource& source_of(std::int64_t b, std::int64_t t) const {
    return job_.specs.rows == nullptr ? job_.turn.rows : job_.specs.rows[spec_at(b, t)];
  }

  /// How many of `count` tokens have the spec of the first.
  std::int64_t with_one_spec(std::int64_t b, std::int64_t first, std::int64_t count) const {
    std::int64_t same = 1;
    while (same < count && spec_at(b, first + same) == spec_at(b, first)) ++same;
    return same;
  }
  /// Tokens whose rows fit.
  std::int64_t most(std::int64_t count) const {
    const std::int64_t pairs = job_.turn.pairs;
    return pairs == 0 ? count : std::clamp(kRowValues / pairs, std::int64_t{1}, kMostRows);
  }
  /// The rows of tokens that one source turns.
  void fill(const job::RowSource& source, std::int64_t count) {
    if (job_.turn.pairs == 0) return;
    if (source.second_lane != 0) return fill_lanes_of_tables(source, count);
    fill_part(source, {count, 0, job_.turn.pairs}, cos_, sin_);
    if (source.step_lane_stride == 0) return;
    fill_part(source_of_second_lane(source), {count, 0, job_.turn.pairs}, second_cos_, second_sin_);
  }
  job::PreparedRow row_at(const job::RowSource& source, std::int64_t r) const {
    const std::int64_t at = r * job_.turn.pairs;
    const bool differ = has_rows_by_lane(source);
    job::PreparedRow row = {{cos_ + at, (differ ? second_cos_ : cos_) + at}, {sin_ + at, (differ ? second_sin_ : sin_) + at}};
    if (!differ && job_.turn.pairs > 0)
      row.identities = std::find(sin_ + at, sin_ + at + job_.turn.pairs, 0.0F) != sin_ + at + job_.turn.pairs;
    // Tables are read with their sines swapped already.
    if (source.step_lane_stride != 0 && source.swap_sines) std::swap(row.sin[0], row.sin[1]);
    return row;
  }

 private:
  std::int64_t spec_at(std::int64_t b, std::int64_t t) const { return job_.specs.rows == nullptr ? 0 : job::spec_at(job_.specs, b, t); }
  /// Some pairs of some rows.
  struct Part {
    std::int64_t tokens;
    std::int64_t first;
    std::int64_t pairs;
  };
  void fill_part(const job::RowSource& source, const Part& part, float* cos, float* sin) const {
    job::RowsJob rows;
    rows.rows = source;
    rows.cos = reinterpret_cast<std::byte*>(cos + part.first);
    rows.sin = reinterpret_cast<std::byte*>(sin + part.first);
    rows.batch = 1;
    rows.tokens = part.tokens;
    rows.pairs = part.pairs;
    rows.cos_strides[1] = rows.sin_strides[1] = job_.turn.pairs;
    const TaskGrid all = {part.tokens, 1, 1, 1};
    kernels_.fill_rows({.job = rows, .grid = all}, 0);
  }
  /// Tables with a value for each channel. In half pairing they have both lanes of a segment before the next segment.
  void fill_lanes_of_tables(const job::RowSource& source, std::int64_t count) {
    const std::int64_t segments = source.pair_stride == 1 ? job_.turn.segments : 1;
    const std::int64_t pairs = job_.turn.pairs / segments;
    for (std::int64_t first = 0; first < job_.turn.pairs; first += pairs) {
      const job::RowSource part = source_of_tables(source, 2 * first, 2 * first);
      job::RowSource second = source_of_tables(part, source.second_lane, source.second_lane);
      if (source.swap_sines) second.second_lane = -source.second_lane;  // lane 1 takes the sines of lane 0
      fill_part(part, {count, first, pairs}, cos_, sin_);
      fill_part(second, {count, first, pairs}, second_cos_, second_sin_);
    }
  }

  const job::PrepareJob& job_;
  const RotaryKernels& kernels_;
  alignas(64) float cos_[kRowValues];
  alignas(64) float sin_[kRowValues];
  alignas(64) float second_cos_[kRowValues];
  alignas(64) float second_sin_[kRowValues];
};

}  // namespace phasor::cpu
