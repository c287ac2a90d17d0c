// SPDX-License-Identifier: Apache-2.0
// The default runner is OpenMP: its threads belong to the program, not to this library.
#include "cpu/common/runner.hpp"

namespace phasor::cpu {

void run_tasks(const Runner& runner, std::int64_t tasks, Task task, void* context) {
  if (tasks == 1) return task(context, 0);
  if (runner.run != nullptr) return runner.run(runner.context, tasks, task, context);
#ifdef _OPENMP
#pragma omp parallel for schedule(static)
#endif
  for (std::int64_t i = 0; i < tasks; ++i) task(context, i);
}

}  // namespace phasor::cpu
