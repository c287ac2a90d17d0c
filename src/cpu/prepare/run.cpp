// SPDX-License-Identifier: Apache-2.0
// The token loop: a task makes rows of cosines and sines for some tokens, by the kernels of cos_sin, then makes each token ready.
#include "cpu/prepare/run.hpp"

#include <algorithm>

#include "cpu/common/runner.hpp"
#include "cpu/common/targets.hpp"
#include "cpu/common/task_grid.hpp"
#include "cpu/prepare/kernels.hpp"
#include "cpu/rotary/sources.hpp"

namespace phasor::cpu {
namespace {

/// Rows of some tokens: as many as fit.
constexpr std::int64_t kRowValues = 4096;
constexpr std::int64_t kMostRows = 32;

/// A source whose row 0 is that of token t of batch row b.
job::RowSource source_from(const job::RowSource& source, std::int64_t b, std::int64_t t) {
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

/// Tasks as of a rotation of the same bytes.
TaskGrid prepare_grid(const job::PrepareJob& job) {
  job::RotateJob shape;
  shape.batch = job.turn.batch;
  shape.tokens = job.turn.tokens;
  shape.dtype = job.turn.dtype;
  shape.head_dim = shape.pairs = shape.operand_count = 1;
  for (int o = 0; o < job.operand_count; ++o) shape.operands[0].heads += job.operands[o].heads * job.operands[o].head_dim;
  return grid_of(shape);
}

/// Whether all that happens to an operand is a rotation to memory of its dtype: then the rotary kernels do it.
bool only_turns(const job::PrepareJob& job, const job::PrepareOperand& operand) {
  const job::PrepareSink& sink = operand.sinks[0];
  return operand.turns && !operand.scales && !operand.rounds_last && operand.norm.kind == HeadNorm::Kind::none && operand.sink_count == 1 &&
         sink.inner == sink.count && sink.strides[4] == bytes_of(sink.storage) && job.turn.rows.step_head_stride == 0;
}

class PrepareTask {
 public:
  PrepareTask(const job::PrepareJob& job, const RotaryKernels& rows, const PrepareKernels& heads) : job_(job), rows_(rows), heads_(heads) {}

  /// Tokens [first, first + count) of a batch row.
  void make(std::int64_t batch, std::int64_t first, std::int64_t count) {
    const std::int64_t pairs = job_.turn.pairs;
    const std::int64_t most = pairs == 0 ? count : std::clamp(kRowValues / pairs, std::int64_t{1}, kMostRows);
    for (std::int64_t t = first; t < first + count;) {
      const std::int64_t n = std::min(most, first + count - t);
      t += source_of(batch, t).step_head_stride != 0 ? make_by_head(batch, t) : make_together(batch, t, n);
    }
  }

 private:
  std::int64_t spec_at(std::int64_t b, std::int64_t t) const {
    return job_.rows == nullptr ? 0 : job::integer_at(job_.spec_of, b * job_.spec_strides[0] + t * job_.spec_strides[1]);
  }
  const job::RowSource& source_of(std::int64_t b, std::int64_t t) const {
    return job_.rows == nullptr ? job_.turn.rows : job_.rows[spec_at(b, t)];
  }

  void fill(const job::RowSource& source, std::int64_t count, float* cos, float* sin) const {
    job::RowsJob rows;
    rows.rows = source;
    rows.cos = reinterpret_cast<std::byte*>(cos);
    rows.sin = reinterpret_cast<std::byte*>(sin);
    rows.batch = 1;
    rows.tokens = count;
    rows.pairs = job_.turn.pairs;
    rows.cos_strides[1] = rows.sin_strides[1] = rows.pairs;
    const TaskGrid all = {count, 1, 1, 1};
    rows_.fill_rows({.job = rows, .grid = all}, 0);
  }
  /// The rows of tokens that one source turns.
  void fill_both(const job::RowSource& source, std::int64_t count) {
    if (job_.turn.pairs == 0) return;
    fill(source, count, cos_, sin_);
    if (source.step_lane_stride != 0) fill(source_of_second_lane(source), count, second_cos_, second_sin_);
  }
  job::PreparedRow row_at(const job::RowSource& source, std::int64_t r) const {
    const std::int64_t at = r * job_.turn.pairs;
    const bool differ = source.step_lane_stride != 0;
    job::PreparedRow row = {{cos_ + at, (differ ? second_cos_ : cos_) + at}, {sin_ + at, (differ ? second_sin_ : sin_) + at}};
    if (!differ && job_.turn.pairs > 0)
      row.identities = std::find(sin_ + at, sin_ + at + job_.turn.pairs, 0.0F) != sin_ + at + job_.turn.pairs;
    if (differ && source.swap_sines) std::swap(row.sin[0], row.sin[1]);
    return row;
  }
  job::PreparedToken token_at(std::int64_t batch, std::int64_t token, const job::PreparedRow& row) const {
    return {batch, token, job::place_of(job_.places, batch, token, job_.turn.tokens), row, 0};
  }

  float factor(const job::PreparedToken& token, const job::PrepareOperand& operand) const {
    return job::norms_over_all(operand) ? heads_.factor(job_, token, operand) : 0;
  }

  /// Up to `count` tokens with one spec; how many it were.
  std::int64_t make_together(std::int64_t batch, std::int64_t first, std::int64_t count) {
    std::int64_t same = 1;
    while (same < count && spec_at(batch, first + same) == spec_at(batch, first)) ++same;
    const job::RowSource& source = source_of(batch, first);
    bool needs_rows = false;
    for (int o = 0; o < job_.operand_count; ++o) {
      const job::PrepareOperand& operand = job_.operands[o];
      if (only_turns(job_, operand)) turn(operand, batch, first, same);
      needs_rows |= operand.turns && !only_turns(job_, operand);
    }
    if (needs_rows) fill_both(source_from(source, batch, first), same);
    for (std::int64_t r = 0; r < same; ++r) {
      const job::PreparedToken token = token_at(batch, first + r, row_at(source, r));
      for (int o = 0; o < job_.operand_count; ++o) {
        const job::PrepareOperand& operand = job_.operands[o];
        if (!only_turns(job_, operand)) heads_.make(job_, token, {operand, 0, 1, factor(token, operand)});
      }
    }
    return same;
  }

  job::TokenPlace place_at(const job::PrepareOperand& operand, std::int64_t batch, std::int64_t token) const {
    return operand.placed ? job::place_of(job_.places, batch, token, job_.turn.tokens) : job::TokenPlace{batch, token};
  }
  /// Tokens by the rotary kernels, as many in one go as lie next to each other.
  void turn(const job::PrepareOperand& operand, std::int64_t batch, std::int64_t first, std::int64_t count) const {
    for (std::int64_t t = first; t < first + count;) {
      const job::TokenPlace place = place_at(operand, batch, t);
      std::int64_t n = 1;
      for (; t + n < first + count; ++n) {
        const job::TokenPlace next = place_at(operand, batch, t + n);
        if (next.block != place.block || next.token != place.token + n) break;
      }
      if (place.block >= 0) turn_run(operand, {batch, t, n}, place);
      t += n;
    }
  }
  struct TokenRun {
    std::int64_t batch;
    std::int64_t first;
    std::int64_t count;
  };
  void turn_run(const job::PrepareOperand& operand, const TokenRun& run, const job::TokenPlace& place) const {
    const job::PrepareSink& sink = operand.sinks[0];
    job::RotateJob turn = job_.turn;
    turn.rows = source_from(source_of(run.batch, run.first), run.batch, run.first);
    turn.batch = 1;
    turn.tokens = run.count;
    turn.head_dim = operand.head_dim;
    turn.offset = operand.rotary_offset;
    turn.operand_count = 1;
    turn.operands[0] = {operand.in + run.batch * operand.in_strides[0] + run.first * operand.in_strides[1],
                        sink.data + place.block * sink.strides[0] + place.token * sink.strides[1],
                        operand.heads,
                        {0, operand.in_strides[1], operand.in_strides[2]},
                        {0, sink.strides[1], sink.strides[2]}};
    const TaskGrid all = {run.count, 1, 1, 1};
    rows_.rotate({.job = turn, .grid = all}, 0);
  }

  /// One token whose heads turn by ladders of their own.
  std::int64_t make_by_head(std::int64_t batch, std::int64_t token) {
    const job::RowSource source = source_from(source_of(batch, token), batch, token);
    for (int o = 0; o < job_.operand_count; ++o) {
      const job::PrepareOperand& operand = job_.operands[o];
      job::PreparedToken at = token_at(batch, token, row_at(source, 0));
      at.row.identities = true;  // rows of heads come later
      const float over_all = factor(at, operand);
      for (std::int64_t h = 0; h < operand.heads; ++h) {
        if (operand.turns) fill_both(source_of_head(source, h), 1);
        heads_.make(job_, at, {operand, h, operand.heads, over_all});
      }
    }
    return 1;
  }

  const job::PrepareJob& job_;
  const RotaryKernels& rows_;
  const PrepareKernels& heads_;
  alignas(64) float cos_[kRowValues];
  alignas(64) float sin_[kRowValues];
  alignas(64) float second_cos_[kRowValues];
  alignas(64) float second_sin_[kRowValues];
};

}  // namespace

Status run_prepare(job::PrepareJob& job, const Execution& execution) {
  const Result<const RotaryKernels*> rows = active_kernels();
  if (!rows.ok()) return rows.status();
  const Result<const PrepareKernels*> heads = active_prepare();
  if (!heads.ok()) return heads.status();
  const TaskGrid grid = prepare_grid(job);
  run_each(execution.runner, grid.tasks, [&](std::int64_t task) {
    PrepareTask work(job, **rows, **heads);
    const std::int64_t first_batch = task / grid.row_blocks * grid.batches_per_task;
    const std::int64_t first = task % grid.row_blocks * grid.rows_per_task;
    const std::int64_t count = std::min(grid.rows_per_task, job.turn.tokens - first);
    for (std::int64_t b = first_batch; b < std::min(first_batch + grid.batches_per_task, job.turn.batch); ++b) work.make(b, first, count);
  });
  return {};
}

}  // namespace phasor::cpu
