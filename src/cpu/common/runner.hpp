// SPDX-License-Identifier: Apache-2.0
// Running a job's tasks: on the caller's runner, on OpenMP, or one after the other.
#pragma once

#include <cstdint>

#include "phasor/rotary.hpp"

namespace phasor::cpu {

using Task = void (*)(void* context, std::int64_t index);

/// Returns when every task is done. One task runs on the calling thread, whatever the runner.
void run_tasks(const Runner& runner, std::int64_t tasks, Task task, void* context);

/// body(index) for every index below count, in any order.
template <class Body>
void run_each(const Runner& runner, std::int64_t count, const Body& body) {
  if (count == 0) return;
  const Task task = [](void* context, std::int64_t index) { (*static_cast<const Body*>(context))(index); };
  run_tasks(runner, count, task, const_cast<Body*>(&body));
}

}  // namespace phasor::cpu
