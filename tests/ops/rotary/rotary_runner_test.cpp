// SPDX-License-Identifier: Apache-2.0
// Results do not depend on who runs the tasks, in which order, or into how many calls a batch is cut.
#include <atomic>
#if !defined(__EMSCRIPTEN__)  // WebAssembly is built without threads
#include <thread>
#endif

#include "ops/rotary/rotary_call.hpp"

namespace phasor::test {
namespace {

using RotaryRunner = EveryTarget;

using Task = void (*)(void* task_context, std::int64_t index);

/// How many tasks a runner was given.
struct Count {
  std::int64_t tasks = 0;
};

void run_in_order(void* context, std::int64_t tasks, Task task, void* task_context) {
  static_cast<Count*>(context)->tasks = tasks;
  for (std::int64_t i = 0; i < tasks; ++i) task(task_context, i);
}

void run_in_reverse(void* context, std::int64_t tasks, Task task, void* task_context) {
  static_cast<Count*>(context)->tasks = tasks;
  for (std::int64_t i = tasks - 1; i >= 0; --i) task(task_context, i);
}

#if !defined(__EMSCRIPTEN__)
void run_on_threads(void* context, std::int64_t tasks, Task task, void* task_context) {
  static_cast<Count*>(context)->tasks = tasks;
  std::atomic<std::int64_t> next{0};
  const auto work = [&] {
    for (std::int64_t i = next++; i < tasks; i = next++) task(task_context, i);
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < 5; ++i) threads.emplace_back(work);
  for (std::thread& thread : threads) thread.join();
}
#endif

using RunTasks = void (*)(void*, std::int64_t, Task, void*);

const std::vector<RunTasks>& runs() {
  static const std::vector<RunTasks> list = {
      run_in_order,
      run_in_reverse,
#if !defined(__EMSCRIPTEN__)
      run_on_threads,
#endif
  };
  return list;
}

RotarySpec spec_of_66() {
  RotarySpec spec;
  spec.head_dim = 67;
  spec.rotary_width = 66;
  return spec;
}

/// Large enough for several tasks along tokens and along the batch.
constexpr std::int64_t batch = 3;
constexpr std::int64_t tokens = 157;

template <class T>
Tensor<T> numbers(std::int64_t heads) {
  Tensor<T> x({batch, tokens, heads, 67}, 101);
  x.with_numbers(0, 66);
  return x;
}

/// (B, T) positions with runs of every length in them.
std::vector<std::int64_t> position_list() {
  Random random(102);
  std::vector<std::int64_t> list;
  while (list.size() < static_cast<std::size_t>(batch * tokens)) {
    const std::int64_t start = static_cast<std::int64_t>(random.bits() >> 24) - (std::int64_t{1} << 39);
    const std::int64_t run = 1 + static_cast<std::int64_t>(random.bits() % 50);
    for (std::int64_t i = 0; i < run; ++i) list.push_back(start + i);
  }
  list.resize(static_cast<std::size_t>(batch * tokens));
  return list;
}

TEST_F(RotaryRunner, the_runner_and_the_order_of_tasks_do_not_change_the_result) {
  const Rotary rotary = make_rotary(spec_of_66());
  const std::vector<std::int64_t> list = position_list();
  on_every_target([&] {
    for_each_dtype([&](auto tag) {
      using T = typename decltype(tag)::type;
      Tensor<T> q = numbers<T>(7);
      Tensor<T> k = numbers<T>(1);
      Tensor<T> q_before = q;
      Tensor<T> k_before = k;
      const Positions where = positions(list.data(), batch, tokens);
      ASSERT_TRUE(rotary.apply(q.view(), k.view(), where).ok());
      EXPECT_FALSE(same_bits(q.memory, q_before.memory));
      for (const RunTasks run : runs()) {
        Count count;
        Tensor<T> q_again = q_before;
        Tensor<T> k_again = k_before;
        ASSERT_TRUE(rotary.apply(q_again.view(), k_again.view(), where, {.execution = {.runner = {run, &count}}}).ok());
        EXPECT_GT(count.tasks, 1);
        EXPECT_TRUE(same_bits(q_again.memory, q.memory));
        EXPECT_TRUE(same_bits(k_again.memory, k.memory));
      }
    });
  });
}

TEST_F(RotaryRunner, rows_do_not_depend_on_the_runner) {
  const Rotary rotary = make_rotary(spec_of_66());
  on_every_target([&] {
    const Extents shape = {1, 1001, 1, 33};
    Tensor<float> cos(shape, 111);
    Tensor<float> sin(shape, 112);
    Tensor<float> cos_again = cos;
    Tensor<float> sin_again = sin;
    ASSERT_TRUE(rotary.cos_sin(positions_from(-500), cos.view(), sin.view()).ok());
    for (const RunTasks run : runs()) {
      Count count;
      ASSERT_TRUE(rotary.cos_sin(positions_from(-500), cos_again.view(), sin_again.view(), {.execution = {.runner = {run, &count}}}).ok());
      EXPECT_GT(count.tasks, 1);
      EXPECT_TRUE(same_bits(cos_again.memory, cos.memory));
      EXPECT_TRUE(same_bits(sin_again.memory, sin.memory));
    }
  });
}

/// Rotates part of x: batch rows [b, b + rows), tokens [t, t + count).
template <class T>
void apply_part(const Rotary& rotary, Tensor<T>& x, const Extents& part, const std::int64_t* list) {
  const auto [b, rows, t, count] = part;
  TensorView piece = x.view();
  piece.data = static_cast<T*>(piece.data) + b * piece.strides[0] + t * piece.strides[1];
  piece.shape[0] = rows;
  piece.shape[1] = count;
  Positions where = positions(list + b * tokens + t, rows, count);
  where.strides[1] = tokens;
  const Status status = rotary.apply(piece, where);
  ASSERT_TRUE(status.ok()) << status.message();
}

TEST_F(RotaryRunner, cutting_the_batch_or_the_tokens_into_calls_does_not_change_the_result) {
  const Rotary rotary = make_rotary(spec_of_66());
  const std::vector<std::int64_t> list = position_list();
  on_every_target([&] {
    for_each_dtype([&](auto tag) {
      using T = typename decltype(tag)::type;
      Tensor<T> whole = numbers<T>(3);
      Tensor<T> by_batch = whole;
      Tensor<T> by_token = whole;
      Tensor<T> by_piece = whole;
      ASSERT_TRUE(rotary.apply(whole.view(), positions(list.data(), batch, tokens)).ok());
      for (std::int64_t b = 0; b < batch; ++b) apply_part(rotary, by_batch, {b, 1, 0, tokens}, list.data());
      for (std::int64_t t = 0; t < tokens; ++t) apply_part(rotary, by_token, {0, batch, t, 1}, list.data());
      for (std::int64_t t = 0; t < tokens; t += 37) {
        apply_part(rotary, by_piece, {0, batch, t, std::min<std::int64_t>(37, tokens - t)}, list.data());
      }
      EXPECT_TRUE(same_bits(by_batch.memory, whole.memory));
      EXPECT_TRUE(same_bits(by_token.memory, whole.memory));
      EXPECT_TRUE(same_bits(by_piece.memory, whole.memory));
    });
  });
}

}  // namespace
}  // namespace phasor::test
