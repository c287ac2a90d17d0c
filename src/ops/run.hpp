// SPDX-License-Identifier: Apache-2.0
// How every public function runs a job: its tasks by the caller's runner, each with the kernel that was chosen.
#pragma once

#include <cstdint>

#include "cpu/common/runner.hpp"
#include "phasor/rotary.hpp"

namespace phasor::ops {

template <class Job>
void run_tasks(const Job& job, void (*kernel)(const Job& job, std::int64_t task), const Runner& runner) {
  cpu::run_each(runner, job.grid.tasks, [&](std::int64_t task) { kernel(job, task); });
}

}  // namespace phasor::ops
