// SPDX-License-Identifier: Apache-2.0
// The pool of threads itself, which knows nothing of Python: the thread sanitizer runs it in tests/attention/threads_test.cpp.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <system_error>
#include <thread>

namespace phasor::python {

struct Work {
  void (*task)(void* context, std::int64_t index) = nullptr;
  void* context = nullptr;
  std::int64_t tasks = 0;
  std::int64_t helpers = 0;  // workers that may take part
};

class Pool {
 public:
  /// False when another thread is using the pool: then the caller works alone.
  bool run(const Work& work) {
    const std::unique_lock<std::mutex> user(user_, std::try_to_lock);
    if (!user.owns_lock() || !grow(work.helpers)) return false;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      work_ = work;
      next_ = 0;
      ++generation_;
    }
    wake_.notify_all();
    take_part(work);
    std::unique_lock<std::mutex> lock(mutex_);
    work_ = {};  // whoever wakes only now finds nothing to do
    idle_.wait(lock, [&] { return active_ == 0; });
    return true;
  }

 private:
  bool grow(std::int64_t helpers) {
    while (workers_ < helpers) {
      try {
        std::thread([this, index = workers_] { work_forever(index); }).detach();
      } catch (const std::system_error&) {
        return false;
      }
      ++workers_;
    }
    return true;
  }

  void take_part(const Work& work) {
    for (std::int64_t i = next_.fetch_add(1); i < work.tasks; i = next_.fetch_add(1)) work.task(work.context, i);
  }

  void work_forever(std::int64_t index) {
    std::uint64_t seen = 0;
    std::unique_lock<std::mutex> lock(mutex_);
    for (;;) {
      wake_.wait(lock, [&] { return generation_ != seen; });
      seen = generation_;
      const Work work = work_;
      if (index >= work.helpers) continue;
      ++active_;
      lock.unlock();
      take_part(work);
      lock.lock();
      if (--active_ == 0) idle_.notify_all();
    }
  }

  std::mutex user_;  // held by the caller whose work this is
  std::mutex mutex_;
  std::condition_variable wake_, idle_;
  Work work_;
  std::atomic<std::int64_t> next_ = 0;
  std::uint64_t generation_ = 0;
  std::int64_t workers_ = 0;
  std::int64_t active_ = 0;
};

}  // namespace phasor::python
