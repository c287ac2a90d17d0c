// SPDX-License-Identifier: Apache-2.0
// A block of a CUDA kernel run by one thread of the host: every thread of the block is a context of its own, which goes on until it waits
// for its warp or for the block. So bodies with barriers and instructions of a whole warp run where there is no GPU.
// A context begins by setcontext and goes on by longjmp: setcontext asks the kernel for its signal mask each time, most of a test's time.
#pragma once

#include <setjmp.h>
#include <ucontext.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <vector>

namespace phasor::test::emulated {

/// _longjmp by its symbol: where code is fortified (some compilers do that unasked) that name means a jump which aborts when it leads to
/// another stack.
extern "C" [[noreturn]] void phasor_jump_to_stack(jmp_buf to, int value) __asm__("_longjmp");

class Block {
 public:
  static constexpr int kLanes = 32;

  /// Runs body by so many threads of a block, in the order of their numbers or against it: what depends on it lacks a barrier. Copies land
  /// as late as they may in the one order, and at once in the other. Aborts where some threads wait for others that have ended.
  void run(int threads, const std::function<void()>& body, bool backwards = false) {
    step_ = backwards ? threads - 1 : 1;
    threads_.resize(static_cast<std::size_t>(threads));
    warps_ = std::vector<Meeting>(static_cast<std::size_t>(threads / kLanes));
    block_ = {};
    named_ = {};
    body_ = &body;
    running() = this;
    for (Thread& thread : threads_) {
      thread.copies.clear();
      thread.copy_groups.clear();
      thread.state = State::not_begun;
    }
    current_ = 0;
    if (_setjmp(outside_) == 0) go_on(threads_[0]);
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
  /// Barriers that have numbers: so many threads wait there, or come by.
  void wait_at(int barrier, int count) {
    meet(named_[static_cast<std::size_t>(barrier)], count, [] {});
  }
  void arrive_at(int barrier, int count) {
    Meeting& meeting = named_[static_cast<std::size_t>(barrier)];
    if (++meeting.arrived == count) end(meeting);
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
  bool copies_at_once() const { return step_ != 1; }
  /// Copies that are under way: they land when their thread waits for them.
  struct Copy {
    unsigned char* to;
    const unsigned char* from;  // null: zeros
  };
  std::vector<Copy>& copies() { return at(current_).copies; }
  /// How many copies there were at the end of each group.
  std::vector<std::size_t>& copy_groups() { return at(current_).copy_groups; }

 private:
  static constexpr std::size_t kStack = std::size_t{256} << 10;
  enum class State { not_begun, waits, ended };
  struct Thread {
    jmp_buf waits_at;
    std::unique_ptr<unsigned char[]> stack = std::make_unique_for_overwrite<unsigned char[]>(kStack);
    std::vector<Copy> copies;
    std::vector<std::size_t> copy_groups;
    State state = State::not_begun;
  };
  struct Meeting {
    int arrived = 0;
    long times = 0;
    std::array<void*, kLanes> lanes = {};
  };

  static void begin() {
    Block* const block = running();
    (*block->body_)();
    block->at(block->current_).state = State::ended;
    block->next();
  }
  [[noreturn]] static void go_on(Thread& thread) {
    if (thread.state == State::waits) phasor_jump_to_stack(thread.waits_at, 1);
    thread.state = State::waits;
    ucontext_t context;
    getcontext(&context);
    context.uc_stack.ss_sp = thread.stack.get();
    context.uc_stack.ss_size = kStack;
    context.uc_link = nullptr;
    makecontext(&context, &Block::begin, 0);
    setcontext(&context);
    std::abort();
  }
  template <class Work>
  void meet(Meeting& meeting, int count, const Work& work) {
    const long before = meeting.times;
    if (++meeting.arrived == count) {
      work();
      end(meeting);
      return;
    }
    while (meeting.times == before) next();
  }
  void end(Meeting& meeting) {
    meeting.arrived = 0;
    ++meeting.times;
    waited_ = 0;
  }
  /// To the next thread that has not ended; outside when all have.
  void next() {
    const int own = current_;
    const int count = static_cast<int>(threads_.size());
    int to = (own + step_) % count;
    while (to != own && at(to).state == State::ended) to = (to + step_) % count;
    if (at(to).state == State::ended) phasor_jump_to_stack(outside_, 1);
    if (++waited_ > 1000 * count) {
      std::fputs("a block waits for threads that do not come\n", stderr);
      std::abort();
    }
    current_ = to;
    if (to != own) leave(at(own), at(to));
  }
  /// Returns when the thread goes on.
  static void leave(Thread& own, Thread& to) {
    if (_setjmp(own.waits_at) == 0) go_on(to);
  }
  Thread& at(int thread) { return threads_[static_cast<std::size_t>(thread)]; }

  std::vector<Thread> threads_;
  std::vector<Meeting> warps_;
  Meeting block_;
  std::array<Meeting, 16> named_;
  const std::function<void()>* body_ = nullptr;
  jmp_buf outside_;
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
