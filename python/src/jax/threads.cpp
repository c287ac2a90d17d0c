// SPDX-License-Identifier: Apache-2.0
// A runner on XLA's own threads. The caller works, too, and waits for those alone that have begun: threads that XLA has no time for are not
// needed, so that calls inside of each other, or more of them than threads, cannot lock up.
#include "jax/threads.hpp"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>

#include "jax/failure.hpp"
#include "threads/limits.hpp"

namespace phasor::python::jax {

namespace {

/// Tasks that several threads take from; kept by each of them, since some come when all is done.
struct Shared {
  void (*task)(void* context, std::int64_t index);
  void* context;
  std::int64_t tasks;
  std::atomic<std::int64_t> next = 0;
  std::mutex mutex = {};
  std::condition_variable left = {};
  std::int64_t active = 0;
  bool closed = false;

  void take_part() {
    for (std::int64_t i = next.fetch_add(1); i < tasks; i = next.fetch_add(1)) task(context, i);
  }
  void help() {
    {
      const std::lock_guard<std::mutex> lock(mutex);
      if (closed) return;
      ++active;
    }
    take_part();
    const std::lock_guard<std::mutex> lock(mutex);
    if (--active == 0) left.notify_all();
  }
  void close() {
    std::unique_lock<std::mutex> lock(mutex);
    closed = true;
    left.wait(lock, [&] { return active == 0; });
  }
};

using Share = std::shared_ptr<Shared>;

void help(void* data) {
  const std::unique_ptr<Share> share(static_cast<Share*>(data));
  (*share)->help();
}

}  // namespace

XlaThreads::XlaThreads(const xla::CallFrame& frame, std::int64_t elements) : frame_(frame) {
  if (elements <= kAlone) return;
  xla::PoolThreads asked = {sizeof asked, nullptr, frame.context, &count_};
  if (!succeeded(frame, frame.api->pool_threads(&asked))) count_ = 1;  // no pool here
  const std::int64_t most = thread_limit();
  count_ = std::min(count_, most > 0 ? most : kMostThreads);
}

void XlaThreads::run(void* context, std::int64_t tasks, void (*task)(void* task_context, std::int64_t index), void* task_context) {
  const auto& self = *static_cast<XlaThreads*>(context);
  const std::int64_t threads = std::min(tasks, self.count_);
  const Share shared(new Shared{task, task_context, tasks});
  for (std::int64_t i = 1; i < threads; ++i) {
    auto share = std::make_unique<Share>(shared);
    xla::PoolSchedule asked = {sizeof asked, nullptr, self.frame_.context, help, share.get()};
    if (!succeeded(self.frame_, self.frame_.api->pool_schedule(&asked))) break;
    static_cast<void>(share.release());  // `help` has it now
  }
  shared->take_part();
  shared->close();
}

}  // namespace phasor::python::jax
