// SPDX-License-Identifier: Apache-2.0
// A block of a CUDA kernel run by one thread of the host: every thread of the block is a context of its own, which goes on until it waits
// for its warp or for the block. So bodies with barriers and instructions of a whole warp run where there is no GPU.
#pragma once

#include <ucontext.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <vector>

namespace phasor::test::emulated {

class Block {
 public:
  static constexpr int kLanes = 32;

  /// Runs body by so many threads of a block, in the order of their numbers or against it: what depends on it lacks a barrier. Aborts where
  /// some of them wait for others that have ended.
  void run(int threads, const std::function<void()>& body, bool backwards = false) {
    step_ = backwards ? threads - 1 : 1;
    threads_ = std::vector<Thread>(static_cast<std::size_t>(threads));
    warps_ = std::vector<Meeting>(static_cast<std::size_t>(threads / kLanes));
    block_ = {};
    body_ = &body;
    running() = this;
    for (Thread& thread : threads_) {
      thread.stack = std::make_unique<std::array<unsigned char, kStack>>();
      getcontext(&thread.context);
      thread.context.uc_stack.ss_sp = thread.stack->data();
      thread.context.uc_stack.ss_size = kStack;
      thread.context.uc_link = nullptr;
      makecontext(&thread.context, &Block::begin, 0);
    }
    current_ = 0;
    swapcontext(&outside_, &threads_[0].context);
    running() = nullptr;
  }
  static Block*& running() {
    static Block* block = nullptr;
    return block;
  }

  unsigned thread() const { return static_cast<unsigned>(current_); }
  int lane() const { return current_ % kLanes; }
  void wait_for_block() {
    meet(block_, static_cast<int>(threads_.size()), [] {});
  }
  /// Every lane brings its own; the last one to come does the work for all of them.
  template <class Own>
  void with_warp(Own& own, void (*work)(const std::array<Own*, kLanes>& lanes)) {
    Meeting& warp = warps_[static_cast<std::size_t>(current_ / kLanes)];
    warp.lanes[static_cast<std::size_t>(lane())] = &own;
    meet(warp, kLanes, [&] {
      std::array<Own*, kLanes> lanes;
      for (std::size_t n = 0; n < kLanes; ++n) lanes[n] = static_cast<Own*>(warp.lanes[n]);
      work(lanes);
    });
  }
  /// Copies that are under way: they arrive when their thread waits for them.
  struct Copy {
    unsigned char* to;
    const unsigned char* from;  // null: zeros
  };
  std::vector<Copy>& copies() { return threads_[static_cast<std::size_t>(current_)].copies; }
  /// How many copies there were at the end of each group.
  std::vector<std::size_t>& copy_groups() { return threads_[static_cast<std::size_t>(current_)].copy_groups; }

 private:
  static constexpr std::size_t kStack = std::size_t{256} << 10;
  struct Thread {
    ucontext_t context;
    std::unique_ptr<std::array<unsigned char, kStack>> stack;
    std::vector<Copy> copies;
    std::vector<std::size_t> copy_groups;
    bool ended = false;
  };
  struct Meeting {
    int arrived = 0;
    long times = 0;
    std::array<void*, kLanes> lanes = {};
  };

  static void begin() {
    Block* const block = running();
    (*block->body_)();
    block->threads_[static_cast<std::size_t>(block->current_)].ended = true;
    block->next();
  }
  template <class Work>
  void meet(Meeting& meeting, int count, const Work& work) {
    const long before = meeting.times;
    if (++meeting.arrived == count) {
      work();
      meeting.arrived = 0;
      ++meeting.times;
      waited_ = 0;
      return;
    }
    while (meeting.times == before) next();
  }
  /// To the next thread that has not ended; outside when all have.
  void next() {
    const int own = current_;
    const int count = static_cast<int>(threads_.size());
    int to = (own + step_) % count;
    while (to != own && threads_[static_cast<std::size_t>(to)].ended) to = (to + step_) % count;
    if (threads_[static_cast<std::size_t>(to)].ended) {
      setcontext(&outside_);
      return;
    }
    if (++waited_ > 1000 * count) {
      std::fputs("a block waits for threads that do not come\n", stderr);
      std::abort();
    }
    current_ = to;
    if (to != own) swapcontext(&threads_[static_cast<std::size_t>(own)].context, &threads_[static_cast<std::size_t>(to)].context);
  }

  std::vector<Thread> threads_;
  std::vector<Meeting> warps_;
  Meeting block_;
  const std::function<void()>* body_ = nullptr;
  ucontext_t outside_ = {};
  int current_ = 0;
  int step_ = 1;  // to the thread that goes on next
  int waited_ = 0;
};

/// threadIdx.
struct ThreadIndex {
  struct X {
    operator unsigned() const { return Block::running()->thread(); }
  } x;
};

}  // namespace phasor::test::emulated
