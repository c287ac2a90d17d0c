// SPDX-License-Identifier: Apache-2.0
// How the CPU cuts a job into tasks. The cut does not change results, so it is not in the job: another device cuts its own way.
#pragma once

#include <cstdint>

#include "job/additive.hpp"
#include "job/learned.hpp"
#include "job/phase_gradient.hpp"
#include "job/rotary.hpp"

namespace phasor::cpu {

/// A task is a block of rows of some batch rows.
struct TaskGrid {
  std::int64_t rows_per_task = 0;
  std::int64_t batches_per_task = 0;
  std::int64_t row_blocks = 0;
  std::int64_t tasks = 0;
};

TaskGrid grid_of(const job::RotateJob& job);
TaskGrid grid_of(const job::RowsJob& job);
TaskGrid grid_of(const job::AddJob& job);
TaskGrid grid_of(const job::LookupJob& job);
TaskGrid grid_of(const job::PhaseGradientJob& job);
TaskGrid grid_of(const job::PositionGradientJob& job);

/// A job and what the CPU decides about it: made once a call, and every task gets a reference to it.
template <class Job>
struct Running {
  const Job& job;
  TaskGrid grid = grid_of(job);
  bool stream = false;  // rotation: stores go past the caches (cpu::streams)
};

}  // namespace phasor::cpu
