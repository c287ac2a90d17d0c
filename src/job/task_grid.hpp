// SPDX-License-Identifier: Apache-2.0
// How a job is cut into tasks. The cut does not change results.
#pragma once

#include <cstdint>

namespace phasor::job {

/// A task is a block of rows of some batch rows.
struct TaskGrid {
  std::int64_t rows_per_task = 0;
  std::int64_t batches_per_task = 0;
  std::int64_t row_blocks = 0;
  std::int64_t tasks = 0;
};

/// What is to be cut: `shared` rows are made once a task, whatever its batch rows; `row_bytes` is what one row of one batch row moves.
struct TaskShape {
  std::int64_t batch;
  std::int64_t tokens;
  std::int64_t row_bytes;
  bool shared;
};
TaskGrid task_grid(const TaskShape& shape);

}  // namespace phasor::job
