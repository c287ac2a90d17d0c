// SPDX-License-Identifier: Apache-2.0
// Execution: what a call runs on besides the memory it is given. Part of every call's options.
#pragma once

#include <cstdint>

namespace phasor {

/// Calls task(task_context, i) once for every i in [0, tasks), in any order and on any threads, and returns when all are done.
/// A null `run` is the library's own: OpenMP where it was built with it, else one after the other. Results do not depend on it.
/// A task takes up to 192 KiB of its thread's stack.
struct Runner {
  void (*run)(void* context, std::int64_t tasks, void (*task)(void* task_context, std::int64_t index), void* task_context) = nullptr;
  void* context = nullptr;
};

/// The memory of the call says which device it runs on. There it takes what is its own: the CPU the runner, a GPU the stream.
struct Execution {
  Runner runner{};
  void* stream = nullptr;  // cudaStream_t; null: the default stream
};

}  // namespace phasor
