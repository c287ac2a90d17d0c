// SPDX-License-Identifier: Apache-2.0
// How every public function runs a job: its tasks by the caller's runner, each with the kernel that was chosen.
#pragma once

#include <cstdint>

#include "cpu/runner.hpp"
#include "phasor/rotary.hpp"

namespace phasor::ops {

/// What a task needs: the job and the kernel that was chosen for it.
template <class Job>
struct Running {
  const Job* job;
  void (*kernel)(const Job& job, std::int64_t task);
};

template <class Job>
void run_tasks(const Job& job, void (*kernel)(const Job& job, std::int64_t task), const Runner& runner) {
  Running<Job> running = {&job, kernel};
  const cpu::Task task = [](void* context, std::int64_t index) {
    const auto* r = static_cast<const Running<Job>*>(context);
    r->kernel(*r->job, index);
  };
  cpu::run_tasks(runner, job.grid.tasks, task, &running);
}

}  // namespace phasor::ops
