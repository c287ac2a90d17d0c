// SPDX-License-Identifier: Apache-2.0
// Attention on the threads of a pool, the one that the Python package has: the same bits as one task after the other, and, under the
// thread sanitizer (make test-tsan), no two tasks that touch the same memory.
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "../python/src/threads/pool.hpp"
#include "attention/support/finite_differences.hpp"
#include "attention/support/held.hpp"

namespace phasor::test {
namespace {

python::Pool& pool() {
  static auto* const one = new python::Pool;  // its threads never end, so neither does it
  return *one;
}

/// Counts the calls that the pool took: a pool in use by another thread does not.
struct Pooled {
  std::int64_t taken = 0;
  std::int64_t tasks = 0;
};

Runner pool_runner(Pooled& pooled) {
  return {[](void* context, std::int64_t tasks, void (*task)(void*, std::int64_t), void* task_context) {
            auto& counts = *static_cast<Pooled*>(context);
            counts.tasks += tasks;
            if (pool().run({task, task_context, tasks, 3})) {
              ++counts.taken;
              return;
            }
            for (std::int64_t i = 0; i < tasks; ++i) task(task_context, i);
          },
          &pooled};
}

/// Outputs and all gradients, one after the other.
std::vector<ref::Values> results(const ref::Problem& problem, DType dtype, const Runner& runner) {
  Bridge bridge(problem, dtype);
  bridge.spec.execution.runner = runner;
  const Loss loss(problem, 3);
  const Status forward = bridge.forward();
  EXPECT_TRUE(forward.ok()) << forward.message();
  const Status backward = bridge.backward(loss.out, loss.lse);
  EXPECT_TRUE(backward.ok()) << backward.message();
  const ref::Output output = bridge.output();
  std::vector<ref::Values> all = {output.out, output.lse};
  ref::Problem p = bridge.problem;
  ref::Gradients gradients = bridge.reference_gradients();
  for (const Differentiable& one : differentiables(p, gradients)) all.emplace_back(one.gradient.begin(), one.gradient.end());
  return all;
}

/// Runs the tasks one after the other: the library's own runner may have threads too.
Runner one_after_the_other() {
  return {[](void*, std::int64_t tasks, void (*task)(void*, std::int64_t), void* context) {
            for (std::int64_t i = 0; i < tasks; ++i) task(context, i);
          },
          nullptr};
}

/// Several tiles of queries and of keys, with a rest.
ref::Shape several_tiles() { return {.batch = 2, .queries = 130, .keys = 130, .heads = 2, .key_heads = 1, .width = 8, .value_width = 6}; }

/// Every scheme that the library has; those of grids for the 130 tokens of several_tiles.
std::vector<NamedScheme> schemes_of_the_library(const ref::Shape& shape) {
  std::vector<NamedScheme> list = every_scheme(shape, 1);
  std::erase_if(list, [](const NamedScheme& one) {
    const auto* xpos = std::get_if<ref::Xpos>(&one.scheme);
    return xpos != nullptr && xpos->keys_rotated;
  });
  Numbers random(6);
  const std::int64_t d = shape.width;
  for (NamedScheme& one : list) {
    if (one.name == "swin") one.scheme = ref::Swin{.height = 10, .width = 13, .table = random.values(shape.heads * 19 * 25)};
    if (one.name == "beit") {
      one.scheme = ref::Swin{.height = 3, .width = 43, .class_token = true, .table = random.values(shape.heads * (5 * 85 + 3))};
    }
    if (one.name == "sam") {
      one.scheme = ref::Sam{.query_grid = {10, 13}, .key_grid = {10, 13}, .rows_h = random.values(19 * d), .rows_w = random.values(25 * d)};
    }
  }
  return list;
}

ref::Problem problem_of(const NamedScheme& one, const ref::Shape& shape) {
  ref::Problem p = random_problem(shape, 2);
  p.schemes = {one.scheme};
  p.visibility.causal = one.causal_only || std::holds_alternative<ref::Cope>(one.scheme);
  return p;
}

TEST(attention_threads, every_scheme_has_the_same_bits_on_a_pool_of_threads) {
  const ref::Shape shape = several_tiles();
  for (const NamedScheme& one : schemes_of_the_library(shape)) {
    const ref::Problem p = problem_of(one, shape);
    Pooled pooled;
    const std::vector<ref::Values> is = results(p, DType::f32, pool_runner(pooled));
    EXPECT_EQ(is, results(p, DType::f32, one_after_the_other())) << one.name;
    EXPECT_GT(pooled.taken, 1) << one.name;
    EXPECT_GT(pooled.tasks, pooled.taken) << one.name << ": tasks that could run beside each other";
  }
}

TEST(attention_threads, callers_that_share_the_pool_do_not_disturb_each_other) {
  const ref::Shape shape = several_tiles();
  const ref::Problem p = problem_of(schemes_of_the_library(shape).front(), shape);
  const std::vector<ref::Values> wanted = results(p, DType::f32, one_after_the_other());
  std::vector<std::vector<ref::Values>> is(3);
  std::vector<std::thread> callers;
  callers.reserve(is.size());
  for (std::vector<ref::Values>& result : is) {
    callers.emplace_back([&] {
      Pooled pooled;
      for (int round = 0; round < 3; ++round) result = results(p, DType::f32, pool_runner(pooled));
    });
  }
  for (std::thread& caller : callers) caller.join();
  for (const std::vector<ref::Values>& result : is) EXPECT_EQ(result, wanted);
}

}  // namespace
}  // namespace phasor::test
