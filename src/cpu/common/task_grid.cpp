// SPDX-License-Identifier: Apache-2.0
// Tasks by rows first, so that consecutive positions stay together; by batch rows too where there are many.
#include "cpu/common/task_grid.hpp"

#include <algorithm>

namespace phasor::cpu {
namespace {

/// Below this a second thread costs more than it saves.
constexpr std::int64_t kTaskBytes = 64 * 1024;
/// A multiple of the kernels' row blocks.
constexpr std::int64_t kTaskRows = 32;
/// Batch rows that share a task's rows, so that making them does not show.
constexpr std::int64_t kSharedBatches = 8;

std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// What is to be cut: `shared` rows are made once a task, whatever its batch rows; `row_bytes` is what one row of one batch row moves.
struct TaskShape {
  std::int64_t batch;
  std::int64_t tokens;
  std::int64_t row_bytes;
  bool shared;
};

TaskGrid task_grid(const TaskShape& shape) {
  if (shape.batch == 0 || shape.tokens == 0) return {};
  // One task without a division: decoding does this for every token.
  if (shape.tokens <= kTaskRows && shape.batch == 1) return {shape.tokens, 1, 1, 1};
  TaskGrid grid;
  const std::int64_t enough_rows = divide_up(kTaskBytes, std::max<std::int64_t>(shape.row_bytes, 1));
  grid.rows_per_task = std::min(shape.tokens, divide_up(enough_rows, kTaskRows) * kTaskRows);
  const std::int64_t enough_batches = divide_up(enough_rows, grid.rows_per_task);
  grid.batches_per_task = std::min(shape.batch, shape.shared ? std::max(enough_batches, kSharedBatches) : enough_batches);
  grid.row_blocks = divide_up(shape.tokens, grid.rows_per_task);
  grid.tasks = grid.row_blocks * divide_up(shape.batch, grid.batches_per_task);
  return grid;
}

}  // namespace

TaskGrid grid_of(const job::RotateJob& job) {
  if (job.pairs == 0) return {};
  std::int64_t heads = 0;
  for (int i = 0; i < job.operand_count; ++i) heads += job.operands[i].heads;
  return task_grid({job.batch, job.tokens, heads * job.head_dim * bytes_of(job.dtype), job.rows.shared});
}

TaskGrid grid_of(const job::RowsJob& job) {
  if (job.pairs == 0) return {};
  return task_grid({job.batch, job.tokens, 2 * job.heads * job.pairs * bytes_of(job.dtype), false});
}

TaskGrid grid_of(const job::AddJob& job) {
  return task_grid({job.batch, job.tokens, job.target.width * bytes_of(job.target.dtype), job.rows.shared});
}

TaskGrid grid_of(const job::LookupJob& job) {
  return task_grid({job.batch, job.tokens, job.target.width * bytes_of(job.target.dtype), false});
}

TaskGrid grid_of(const job::PhaseGradientJob& job) {
  if (job.pairs == 0) return {};
  return task_grid({job.batch, job.tokens, 4 * job.rotated.shape[2] * job.pairs * bytes_of(job.rotated.dtype), false});
}

TaskGrid grid_of(const job::PositionGradientJob& job) {
  const Extents& shape = job.gradient.shape;
  const std::int64_t summed = job.batch == 1 ? shape[0] : 1;
  return task_grid({job.batch, job.tokens, summed * shape[2] * shape[3] * bytes_of(job.gradient.dtype), false});
}

}  // namespace phasor::cpu
