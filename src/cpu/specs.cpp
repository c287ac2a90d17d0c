// SPDX-License-Identifier: Apache-2.0
// A rotation by several specs: each task is cut into runs of tokens with one spec, and the rotary kernels turn each run.
#include <algorithm>

#include "cpu/common/runner.hpp"
#include "cpu/common/targets.hpp"
#include "cpu/rotary/sources.hpp"
#include "cpu/run.hpp"

namespace phasor::cpu {
namespace {

/// Some tokens of some batch rows.
struct RowRun {
  std::int64_t batch;
  std::int64_t batches;
  std::int64_t token;
  std::int64_t tokens;
};

/// A run's tokens by one source, as a job of their own.
job::RotateJob part_of(const job::RotateJob& whole, const job::RowSource& source, const RowRun& run) {
  job::RotateJob part = whole;
  part.rows = source_from(source, run.batch, run.token);
  part.batch = run.batches;
  part.tokens = run.tokens;
  for (int o = 0; o < part.operand_count; ++o) {
    job::Operand& operand = part.operands[o];
    operand.in += run.batch * operand.in_strides[0] + run.token * operand.in_strides[1];
    operand.out += run.batch * operand.out_strides[0] + run.token * operand.out_strides[1];
  }
  return part;
}

/// The longest run from the beginning of `left` on: tokens of the first batch row; all of them, and one spec for each row: of more rows.
RowRun first_run(const job::SpecList& specs, const RowRun& left) {
  const std::int64_t spec = job::spec_at(specs, left.batch, left.token);
  RowRun run = {left.batch, 1, left.token, 1};
  if (specs.strides[1] != 0) {
    while (run.tokens < left.tokens && job::spec_at(specs, run.batch, run.token + run.tokens) == spec) ++run.tokens;
    return run;
  }
  run.tokens = left.tokens;
  while (run.batches < left.batches && job::spec_at(specs, run.batch + run.batches, run.token) == spec) ++run.batches;
  return run;
}

template <class Body>
void each_run(const job::SpecList& specs, const RowRun& all, const Body& body) {
  const std::int64_t end = all.batch + all.batches;
  for (std::int64_t b = all.batch; b < end;) {
    std::int64_t rows = 1;
    for (std::int64_t t = all.token; t < all.token + all.tokens;) {
      const RowRun run = first_run(specs, {b, end - b, t, all.token + all.tokens - t});
      body(run);
      t += run.tokens;
      rows = run.batches;
    }
    b += rows;
  }
}

}  // namespace

Status run_rotate_specs(job::RotateSpecsJob& job, const Execution& execution) {
  if (job.specs.rows == nullptr) return run_rotate(job.rotate, execution);
  const Result<const RotaryKernels*> kernels = active_kernels();
  if (!kernels.ok()) return kernels.status();
  const bool stream = streams(job.rotate);
  const TaskGrid grid = grid_of(job.rotate);
  run_each(execution.runner, grid.tasks, [&](std::int64_t task) {
    const std::int64_t batch = task / grid.row_blocks * grid.batches_per_task;
    const std::int64_t token = task % grid.row_blocks * grid.rows_per_task;
    const RowRun all = {batch, std::min(grid.batches_per_task, job.rotate.batch - batch), token,
                        std::min(grid.rows_per_task, job.rotate.tokens - token)};
    each_run(job.specs, all, [&](const RowRun& run) {
      const job::RotateJob part = part_of(job.rotate, job.specs.rows[job::spec_at(job.specs, run.batch, run.token)], run);
      (*kernels)->rotate({.job = part, .grid = {run.tokens, run.batches, 1, 1}, .stream = stream}, 0);
    });
  });
  return {};
}

}  // namespace phasor::cpu
