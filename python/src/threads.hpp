// SPDX-License-Identifier: Apache-2.0
// Threads of the Python package: a pool that as many take part in as PyTorch would use, and that survives a fork.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>

#include "phasor/rotary.hpp"

namespace phasor::python {

/// A runner of as many threads as the settings say for work on so many elements. Made with the GIL held, used without.
class Threads {
 public:
  explicit Threads(std::int64_t elements);
  Runner runner() { return {run, this}; }
  /// Whether there is so little to do that giving the interpreter to others would take longer.
  bool alone() const { return alone_; }

 private:
  static void run(void* context, std::int64_t tasks, void (*task)(void* task_context, std::int64_t index), void* task_context);
  bool alone_;
  std::int64_t count_;
};

void bind_threads(nanobind::module_& m);

}  // namespace phasor::python
