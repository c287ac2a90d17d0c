// SPDX-License-Identifier: Apache-2.0
// The token loop: a task makes rows of cosines and sines for some tokens, by the kernels of cos_sin, then makes each token ready.
#include "cpu/prepare/run.hpp"

#include <algorithm>

#include "cpu/common/runner.hpp"
#include "cpu/common/targets.hpp"
#include "cpu/common/task_grid.hpp"
#include "cpu/prepare/kernels.hpp"
#include "cpu/prepare/rows.hpp"

namespace phasor::cpu {
namespace {

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
         sink.inner == sink.count && sink.strides[4] == bytes_of(sink.storage) && !job::has_rows_by_head(job.turn.rows);
}

class PrepareTask {
 public:
  PrepareTask(const job::PrepareJob& job, const RotaryKernels& rotary, const PrepareKernels& heads)
      : job_(job), rotary_(rotary), heads_(heads), rows_(job, rotary) {}

  /// Tokens [first, first + count) of a batch row.
  void make(std::int64_t batch, std::int64_t first, std::int64_t count) {
    const std::int64_t most = rows_.most(count);
    for (std::int64_t t = first; t < first + count;) {
      const std::int64_t n = std::min(most, first + count - t);
      t += job::has_rows_by_head(rows_.source_of(batch, t)) ? make_by_head(batch, t) : make_together(batch, t, n);
    }
  }

 private:
  job::PreparedToken token_at(std::int64_t batch, std::int64_t token, const job::PreparedRow& row) const {
    return {batch, token, job::place_of(job_.places, batch, token, job_.turn.tokens), row, 0};
  }

  float factor(const job::PreparedToken& token, const job::PrepareOperand& operand) const {
    return job::norms_over_all(operand) ? heads_.factor(job_, token, operand) : 0;
  }

  /// Up to `count` tokens with one spec; how many it were.
  std::int64_t make_together(std::int64_t batch, std::int64_t first, std::int64_t count) {
    const std::int64_t same = rows_.with_one_spec(batch, first, count);
    const job::RowSource& source = rows_.source_of(batch, first);
    bool needs_rows = false;
    for (int o = 0; o < job_.operand_count; ++o) {
      const job::PrepareOperand& operand = job_.operands[o];
      if (only_turns(job_, operand)) turn(operand, batch, first, same);
      needs_rows |= operand.turns && !only_turns(job_, operand);
    }
    if (needs_rows) rows_.fill(source_from(source, batch, first), same);
    for (std::int64_t r = 0; r < same; ++r) {
      const job::PreparedToken token = token_at(batch, first + r, rows_.row_at(source, r));
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
    turn.rows = source_from(rows_.source_of(run.batch, run.first), run.batch, run.first);
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
    rotary_.rotate({.job = turn, .grid = all}, 0);
  }

  /// One token whose heads turn by ladders of their own.
  std::int64_t make_by_head(std::int64_t batch, std::int64_t token) {
    const job::RowSource source = source_from(rows_.source_of(batch, token), batch, token);
    for (int o = 0; o < job_.operand_count; ++o) {
      const job::PrepareOperand& operand = job_.operands[o];
      job::PreparedToken at = token_at(batch, token, rows_.row_at(source, 0));
      at.row.identities = true;  // rows of heads come later
      const float over_all = factor(at, operand);
      for (std::int64_t h = 0; h < operand.heads; ++h) {
        if (operand.turns) rows_.fill(source_of_head(source, h), 1);
        heads_.make(job_, at, {operand, h, operand.heads, over_all});
      }
    }
    return 1;
  }

  const job::PrepareJob& job_;
  const RotaryKernels& rotary_;
  const PrepareKernels& heads_;
  TokenRows rows_;
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
