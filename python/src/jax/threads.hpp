// SPDX-License-Identifier: Apache-2.0
// A runner on XLA's own threads, which are as many as the program was given.
#pragma once

#include <cstdint>

#include "jax/xla_ffi.hpp"
#include "phasor/execution.hpp"

namespace phasor::python::jax {

/// For work on so many elements. Lives as long as the call.
class XlaThreads {
 public:
  XlaThreads(const xla::CallFrame& frame, std::int64_t elements);
  Runner runner() { return {run, this}; }

 private:
  static void run(void* context, std::int64_t tasks, void (*task)(void* task_context, std::int64_t index), void* task_context);
  const xla::CallFrame& frame_;
  std::int64_t count_ = 1;
};

}  // namespace phasor::python::jax
