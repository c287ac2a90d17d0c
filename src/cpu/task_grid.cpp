// SPDX-License-Identifier: Apache-2.0
// How jobs are cut into tasks: by rows first, so that consecutive positions stay together; by batch rows too where there are many.
#include <algorithm>

#include "cpu/rotary.hpp"

namespace phasor::cpu {
namespace {

/// Below this a second thread costs more than it saves.
constexpr std::int64_t kTaskBytes = 64 * 1024;
/// A multiple of the kernels' row blocks.
constexpr std::int64_t kTaskRows = 32;

std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

TaskGrid grid_of(std::int64_t batch, std::int64_t tokens, bool shared, std::int64_t row_bytes) {
  TaskGrid grid{};
  const std::int64_t enough_rows = divide_up(kTaskBytes, std::max<std::int64_t>(row_bytes, 1));
  grid.rows_per_task = std::min(tokens, divide_up(enough_rows, kTaskRows) * kTaskRows);
  const std::int64_t enough_batches = divide_up(enough_rows, std::max<std::int64_t>(grid.rows_per_task, 1));
  // Shared rows are made once a task: give it enough batch rows that this does not show.
  grid.batches_per_task = std::min(batch, shared ? std::max<std::int64_t>(enough_batches, 8) : enough_batches);
  if (batch == 0 || tokens == 0) return grid;
  grid.row_blocks = divide_up(tokens, grid.rows_per_task);
  grid.tasks = grid.row_blocks * divide_up(batch, grid.batches_per_task);
  return grid;
}

}  // namespace

TaskGrid task_grid(const job::RotateJob& job) {
  if (job.batch == 0 || job.tokens == 0) return {};
  std::int64_t heads = 0;
  for (int i = 0; i < job.operand_count; ++i) heads += job.operands[i].heads;
  return grid_of(job.batch, job.tokens, job.rows.shared, heads * job.head_dim * bytes_of(job.dtype));
}

TaskGrid task_grid(const job::RowsJob& job) { return grid_of(job.batch, job.tokens, false, 2 * job.pairs * bytes_of(job.dtype)); }

}  // namespace phasor::cpu
