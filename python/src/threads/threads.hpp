// SPDX-License-Identifier: Apache-2.0
// Threads of the Python package: a pool that as many take part in as PyTorch would use, and that survives a fork.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <optional>

#include "arrays/place.hpp"
#include "phasor/execution.hpp"
#include "status.hpp"

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

/// Whether other Python threads may run during a call: always, or not while it is so short that letting them would take longer.
enum class Gil : std::uint8_t { released, kept_if_short };

/// Runs `work(execution)`, on so many elements and where they are, without the GIL, and raises what it reports. On a GPU it is released for
/// short calls too: a full queue of launches makes a call wait, perhaps for somebody who needs the GIL.
template <class Work>
void run_unlocked(const Place& place, std::int64_t elements, const Work& work, Gil gil = Gil::released) {
  Threads threads(place.on_gpu() ? 0 : elements);
  Status status;
  {
    std::optional<nanobind::gil_scoped_release> release;
    if (gil == Gil::released || !threads.alone() || place.on_gpu()) release.emplace();
    status = work(Execution{.runner = threads.runner(), .stream = place.stream});
  }
  check(status);
}

void bind_threads(nanobind::module_& m);

}  // namespace phasor::python
