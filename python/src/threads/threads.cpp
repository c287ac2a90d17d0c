// SPDX-License-Identifier: Apache-2.0
// The pool of threads. Not OpenMP: libgomp hangs in the child of a fork whose parent used it, and PyTorch brings a libgomp of its own.
#include "threads/threads.hpp"

#include <pthread.h>
#ifdef __linux__
#include <sched.h>
#endif

#include <algorithm>
#include <atomic>
#include <thread>

#include "status.hpp"
#include "threads/limits.hpp"
#include "threads/pool.hpp"

namespace phasor::python {

namespace nb = nanobind;

namespace {

// Never destroyed: its workers live until the process ends. A fork's child has none of them, so it gets a new one.
Pool* pool = new Pool;  // NOLINT(cppcoreguidelines-owning-memory)

std::atomic<std::int64_t> wanted_threads = 0;  // 0: follow PyTorch, else the cores
PyObject* torch_threads = nullptr;             // torch.get_num_threads, once PyTorch is there

/// The cores that this process may use, which hardware_concurrency does not ask for everywhere.
std::int64_t cores() {
#ifdef __linux__
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) == 0) return std::max(1, CPU_COUNT(&allowed));
#endif
  return std::max<std::int64_t>(1, std::thread::hardware_concurrency());
}

/// Whoever imported PyTorch, and whenever: its number of threads counts.
void look_for_torch() {
  const nb::object torch = nb::steal(PyImport_GetModule(nb::str("torch").ptr()));
  if (!torch.is_valid()) return PyErr_Clear();
  nb::object threads = nb::getattr(torch, "get_num_threads", nb::none());  // not there while it is being imported
  if (!threads.is_none()) torch_threads = threads.release().ptr();
}

std::int64_t thread_count() {
  if (wanted_threads > 0) return wanted_threads;
  if (torch_threads == nullptr) look_for_torch();
  if (torch_threads != nullptr) return nb::cast<std::int64_t>(nb::handle(torch_threads)());
  return cores();
}

}  // namespace

std::int64_t thread_limit() { return wanted_threads; }

Threads::Threads(std::int64_t elements) : alone_(elements <= kAlone), count_(alone_ ? 1 : std::min(thread_count(), kMostThreads)) {}

void Threads::run(void* context, std::int64_t tasks, void (*task)(void* task_context, std::int64_t index), void* task_context) {
  const std::int64_t threads = std::min(tasks, static_cast<Threads*>(context)->count_);
  if (threads > 1 && pool->run({task, task_context, tasks, threads - 1})) return;
  for (std::int64_t i = 0; i < tasks; ++i) task(task_context, i);
}

void bind_threads(nb::module_& m) {
  pthread_atfork(nullptr, nullptr, [] { pool = new Pool; });  // NOLINT(cppcoreguidelines-owning-memory)
  m.def(
      "set_num_threads",
      [](std::int64_t threads) {
        if (threads < 0 || threads > kMostThreads) {
          raise(PyExc_ValueError, "set_num_threads: is " + std::to_string(threads) + ", wanted 1 to " + std::to_string(kMostThreads) +
                                      ", or 0 to follow PyTorch");
        }
        wanted_threads = threads;
      },
      nb::arg("threads"), "How many threads a call may use; 0: as many as PyTorch, or the cores of this process.");
  m.def("get_num_threads", &thread_count, "How many threads a large call uses.");
}

}  // namespace phasor::python
