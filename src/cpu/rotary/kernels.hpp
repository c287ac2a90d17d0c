// SPDX-License-Identifier: Apache-2.0
// The CPU backend: one table entry a target, chosen once, high.
#pragma once

#include "cpu/common/task_grid.hpp"

namespace phasor::cpu {

/// The kernels of one target. Tasks (run.grid) are independent and may run in any order.
struct RotaryKernels {
  const char* target;
  bool (*available)();
  void (*rotate)(const Running<job::RotateJob>& run, std::int64_t task);
  void (*fill_rows)(const Running<job::RowsJob>& run, std::int64_t task);
  void (*add)(const Running<job::AddJob>& run, std::int64_t task);
  void (*lookup)(const Running<job::LookupJob>& run, std::int64_t task);
};

/// Kernels of every target in this build, best first; the last one is scalar.
struct RotaryKernelTable {
  const RotaryKernels* entries;
  int count;
};
RotaryKernelTable rotary_kernels();

/// Whether a job's stores go past the caches: out of place, more than they hold, and every register's store aligned.
/// Never on aarch64.
bool streams(const job::RotateJob& job);
/// The same for a machine whose caches hold so many bytes; 0: not known.
bool streams(const job::RotateJob& job, std::int64_t limit);

}  // namespace phasor::cpu
