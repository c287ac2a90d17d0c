// SPDX-License-Identifier: Apache-2.0
// What a launch decides about a common rotation.
#include "cuda/rotary/team_work.hpp"

#include <algorithm>
#include <utility>

#include "cuda/rotary/work.hpp"

namespace phasor::cuda {
namespace {

constexpr int64_t kMostTokens = int64_t{1} << 28;
constexpr int64_t kMostOfGrid = 65535;  // of y and z

bool has_common_rows(const job::RowSource& rows, int64_t pairs) {
  if (rows.kind == job::RowSource::Kind::tables) return true;
  return rows.kind == job::RowSource::Kind::phases && rows.profile.count == 0 && !is_fractional(rows.positions) &&
         rows.step_axis_stride == 0 && rows.turning_pairs >= pairs && pairs <= kMostTeamPairs;
}

int log2_up(int n) {
  int shift = 0;
  while (1 << shift < n) ++shift;
  return shift;
}
int divided_up(int64_t n, int64_t by) { return static_cast<int>((n + by - 1) / by); }

/// One token of many rows is as many tokens of one row, if its positions are somewhere.
void make_rows_tokens(job::RotateJob& job) {
  if (job.tokens != 1 || job.batch == 1 || (job.rows.kind == job::RowSource::Kind::phases && job.rows.positions.data == nullptr)) return;
  std::swap(job.batch, job.tokens);
  for (job::Operand& operand : job.operands) {
    std::swap(operand.in_strides[0], operand.in_strides[1]);
    std::swap(operand.out_strides[0], operand.out_strides[1]);
  }
  std::swap(job.rows.positions.batch_stride, job.rows.positions.token_stride);
  std::swap(job.rows.tables.cos_strides[0], job.rows.tables.cos_strides[1]);
  std::swap(job.rows.tables.sin_strides[0], job.rows.tables.sin_strides[1]);
}

}  // namespace

bool is_common(const RotateWork& work) {
  const job::RotateJob& job = work.job;
  const bool plain = job.read == job.write && !job.turns_all && !job.rounds_products && job.slots == nullptr && !work.by_head &&
                     job.rows.step_lane_stride == 0;
  return plain && has_common_rows(job.rows, job.pairs) && takes_vectors(work) && job.head_dim <= kMostOfGrid &&
         job.operands[0].heads + job.operands[1].heads <= kMostOfGrid && job.batch <= kMostOfGrid && job.tokens <= kMostTokens;
}

TeamKind team_kind(const job::RotateJob& job) {
  const int64_t tokens = job.batch * job.tokens;
  if (tokens <= kFewTokens) return TeamKind::few;
  if (tokens <= kSomeTokens) return TeamKind::some;
  return tokens < kManyTokens ? TeamKind::many : TeamKind::most;
}

TeamWork team_work(const RotateWork& rotate, TeamKind kind) {
  TeamWork work = {rotate, {}};
  job::RotateJob& job = work.rotate.job;
  make_rows_tokens(job);
  TeamShape& shape = work.shape;
  const TeamTuning tuning = tuning_of(kind, job.dtype);
  const int width = static_cast<int>(kVectorBytes / bytes_of(job.dtype));
  const auto pairs = static_cast<int>(job.pairs);
  shape.threads = tuning.team;
  shape.slice_pairs = std::min(tuning.slice_pairs, pairs);
  shape.vectors = shape.slice_pairs / width;
  shape.vector_inverse = divided_up(65536, shape.vectors);
  shape.rows = shape.threads / shape.vectors;
  const int64_t heads = job.operands[0].heads + job.operands[1].heads;
  shape.groups = divided_up(heads, int64_t{shape.rows} * tuning.each);
  shape.group_heads = divided_up(heads, shape.groups);
  shape.slice_shift = log2_up(divided_up(pairs, shape.slice_pairs));
  shape.unit_shift = log2_up(shape.groups << shape.slice_shift);
  for (int o = 0; o < job.operand_count; ++o) {
    shape.in_step[o] = shape.rows * job.operands[o].in_strides[2];
    shape.out_step[o] = shape.rows * job.operands[o].out_strides[2];
  }
  return work;
}

TeamGrid team_grid(const TeamWork& work, TeamKind kind) {
  const job::RotateJob& job = work.rotate.job;
  const TeamTuning tuning = tuning_of(kind, job.dtype);
  const int teams = tuning.threads / tuning.team;
  TeamGrid grid = {{static_cast<unsigned>(job.tokens), 1, static_cast<unsigned>(job.batch)}, static_cast<unsigned>(tuning.threads)};
  if (teams > 1) {
    grid.blocks[0] = static_cast<unsigned>(divided_up(job.tokens << work.shape.unit_shift, teams));
  } else {
    grid.blocks[1] = static_cast<unsigned>(work.shape.groups) << work.shape.slice_shift;
  }
  return grid;
}

}  // namespace phasor::cuda
