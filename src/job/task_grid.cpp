// SPDX-License-Identifier: Apache-2.0
// Tasks by rows first, so that consecutive positions stay together; by batch rows too where there are many.
#include "job/task_grid.hpp"

#include <algorithm>

namespace phasor::job {
namespace {

/// Below this a second thread costs more than it saves.
constexpr std::int64_t kTaskBytes = 64 * 1024;
/// A multiple of the kernels' row blocks.
constexpr std::int64_t kTaskRows = 32;
/// Batch rows that share a task's rows, so that making them does not show.
constexpr std::int64_t kSharedBatches = 8;

std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

}  // namespace

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

}  // namespace phasor::job
