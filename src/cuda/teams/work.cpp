// SPDX-License-Identifier: Apache-2.0
// What a launch decides about a common rotation.
#include "cuda/teams/work.hpp"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "cuda/rotary/work.hpp"

namespace phasor::cuda {
namespace {

constexpr int64_t kMostTokens = int64_t{1} << 28;
constexpr int64_t kMostOfGrid = 65535;  // of y and z

/// Strides that 32 bits hold, none of them backwards.
bool is_near(const job::PositionSource& positions) {
  for (const int64_t stride : {positions.token_stride, positions.batch_stride, positions.axis_stride}) {
    if (stride < 0 || stride >> 32 != 0) return false;
  }
  return true;
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

void cut(const RotateWork& rotate, const TeamTuning& tuning, TeamShape& shape) {
  const job::RotateJob& job = rotate.job;
  const int64_t heads = job.operands[0].heads + job.operands[1].heads;
  shape.pairs = static_cast<int>(job.pairs);
  shape.tokens = static_cast<int>(job.tokens);
  shape.slice_pairs = std::min(tuning.slice_pairs, shape.pairs);
  shape.vectors = static_cast<int>(shape.slice_pairs / (kVectorBytes / bytes_of(job.dtype)));
  shape.vector_inverse = divided_up(65536, shape.vectors);
  shape.rows = tuning.team / shape.vectors;
  shape.groups = divided_up(heads, int64_t{shape.rows} * tuning.each);
  shape.group_heads = divided_up(heads, shape.groups);
  shape.all_heads = static_cast<int>(heads);
  shape.first_heads = static_cast<int>(job.operands[0].heads);
  shape.slice_shift = log2_up(divided_up(shape.pairs, shape.slice_pairs));
}

unsigned in_vectors(int64_t bytes) { return static_cast<unsigned>(bytes / kVectorBytes); }

void set_memory(const RotateWork& rotate, TeamShape& shape) {
  const job::RotateJob& job = rotate.job;
  const int64_t size = bytes_of(job.dtype);
  shape.first_byte = static_cast<int>(job.offset * size);
  shape.half_bytes = static_cast<int>(rotate.segment_pairs * size);
  shape.segment_pairs = job.segments > 1 ? static_cast<int>(rotate.segment_pairs) : 0;
  shape.segment_inverse = job.segments > 1 ? divided_up(65536, rotate.segment_pairs) : 0;
  shape.in_head = static_cast<int>(job.operands[0].in_strides[2]);
  shape.out_head = static_cast<int>(job.operands[0].out_strides[2]);
  shape.in_rows = static_cast<int>(int64_t{shape.rows} * shape.in_head);  // used where so many heads are
  shape.out_rows = static_cast<int>(int64_t{shape.rows} * shape.out_head);
  for (int o = 0; o < job.operand_count; ++o) {
    const job::Operand& operand = job.operands[o];
    shape.in[o] = operand.in;
    shape.out[o] = operand.out;
    shape.in_batch[o] = in_vectors(operand.in_strides[0]);
    shape.in_token[o] = in_vectors(operand.in_strides[1]);
    shape.out_batch[o] = in_vectors(operand.out_strides[0]);
    shape.out_token[o] = in_vectors(operand.out_strides[1]);
    shape.copies_rest |= operand.in != operand.out && job.head_dim != 2 * job.pairs;
  }
}

/// Strides of axes with one step are nobody's.
void clear_idle_strides(job::RotateJob& job) {
  for (job::Operand& operand : job.operands) {
    if (job.batch <= 1) operand.in_strides[0] = operand.out_strides[0] = 0;
    if (job.tokens <= 1) operand.in_strides[1] = operand.out_strides[1] = 0;
  }
  if (job.operands[0].heads <= 1 && job.operands[1].heads <= 1) {
    for (job::Operand& operand : job.operands) operand.in_strides[2] = operand.out_strides[2] = 0;
  } else if (job.operands[0].heads <= 1) {
    job.operands[0].in_strides[2] = job.operands[1].in_strides[2];
    job.operands[0].out_strides[2] = job.operands[1].out_strides[2];
  }
}

/// Strides that 32 bits hold, none of them backwards, and those of heads alike in q and k.
bool is_near(job::RotateJob job) {
  constexpr int64_t kMostOfHeads = int64_t{1} << 30;
  constexpr int64_t kMost = (int64_t{1} << 32) - 1;
  clear_idle_strides(job);
  for (int o = 0; o < job.operand_count; ++o) {
    const job::Operand& operand = job.operands[o];
    for (const int64_t* const strides : {operand.in_strides, operand.out_strides}) {
      for (int axis = 0; axis < 2; ++axis) {
        if (strides[axis] < 0 || strides[axis] / kVectorBytes > kMost) return false;
      }
      if (operand.heads > 1 && (strides[2] < 0 || strides[2] > kMostOfHeads / operand.heads)) return false;
    }
    if (operand.heads > 1 &&
        (operand.in_strides[2] != job.operands[0].in_strides[2] || operand.out_strides[2] != job.operands[0].out_strides[2])) {
      return false;
    }
  }
  return true;
}

}  // namespace

bool has_team_sines(const job::RowSource& rows, int64_t pairs) {
  return rows.kind == job::RowSource::Kind::phases && rows.profile.count == 0 && !is_fractional(rows.positions) &&
         rows.step_axis_stride == 0 && rows.step_lane_stride == 0 && rows.turning_pairs >= pairs && pairs <= kMostTeamPairs &&
         is_near(rows.positions);
}

bool is_common(const RotateWork& work) {
  const job::RotateJob& job = work.job;
  const bool plain = job.read == job.write && !job.turns_all && !job.rounds_products && job.slots == nullptr && !work.by_head &&
                     job.rows.step_lane_stride == 0 && (job.segments <= 1 || job.pairs <= kMostTeamPairs);  // segment_of is exact there
  const bool has_rows = job.rows.kind == job::RowSource::Kind::tables || has_team_sines(job.rows, job.pairs);
  return plain && has_rows && takes_vectors(work) && is_near(job) && job.head_dim <= kMostOfGrid &&
         job.operands[0].heads + job.operands[1].heads <= kMostOfGrid && job.batch <= kMostOfGrid && job.tokens <= kMostTokens;
}

TeamKind team_kind(const job::RotateJob& job) {
  const int64_t tokens = job.batch * job.tokens;
  if (tokens <= kFewTokens) return TeamKind::few;
  if (job.dtype == DType::f64) return TeamKind::most;
  if (tokens <= kSomeTokens) return TeamKind::some;
  return tokens < kManyTokens ? TeamKind::many : TeamKind::most;
}

TeamWork team_work(const RotateWork& rotate, TeamKind kind) {
  TeamWork work = {{}, rotate};
  clear_idle_strides(work.rotate.job);
  make_rows_tokens(work.rotate.job);
  cut(work.rotate, tuning_of(kind, rotate.job.dtype), work.shape);
  set_memory(work.rotate, work.shape);
  work.shape.sines = sines_of(work.rotate.job.rows);
  work.shape.by_tables = work.rotate.job.rows.kind == job::RowSource::Kind::tables;
  return work;
}

TeamCall team_call(const TeamWork& work, TeamKind kind) {
  const TeamShape& shape = work.shape;
  const bool whole = shape.pairs == tuning_of(kind, work.rotate.job.dtype).slice_pairs << shape.slice_shift;
  const bool plain = knows_plain(kind) && whole && work.rotate.job.batch == 1 && shape.segment_pairs == 0 && !shape.by_tables &&
                     !shape.sines.many_axes && !shape.copies_rest;
  return {work.rotate.job.read, kind, plain};
}

TeamGrid team_grid(const TeamWork& work, TeamKind kind) {
  const job::RotateJob& job = work.rotate.job;
  const TeamTuning tuning = tuning_of(kind, job.dtype);
  const int teams = tuning.threads / tuning.team;
  const int units = divided_up(job.tokens << work.shape.slice_shift, teams);
  return {{static_cast<unsigned>(units), static_cast<unsigned>(work.shape.groups), static_cast<unsigned>(job.batch)},
          static_cast<unsigned>(tuning.threads)};
}

}  // namespace phasor::cuda
