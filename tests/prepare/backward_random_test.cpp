// SPDX-License-Identifier: Apache-2.0
// Random calls of prepare_attention_backward give, byte for byte, what the naive one gives, on every target; all other bytes stay. They do
// so for one thread and for several, and the GPU's body, run on the host, gives the same bytes.
#include <gtest/gtest.h>

#include <thread>

#include "prepare/naive_backward.hpp"
#include "prepare/random_backward.hpp"
#include "tensor.hpp"

namespace phasor::test {
namespace {

Status naive(const PrepareInputs& inputs, const PrepareRotation& rotation, const PrepareGradients& gradients, const PrepareSpec& spec) {
  reference::NaiveBackward<float> naive(inputs, rotation, gradients, spec);
  naive.run();
  naive.write();
  return {};
}
Status library(const PrepareInputs& inputs, const PrepareRotation& rotation, const PrepareGradients& gradients, const PrepareSpec& spec) {
  return prepare_attention_backward(inputs, rotation, gradients, spec);
}

void expect_same(const RandomBackward::Memory& is, const RandomBackward::Memory& wanted, std::uint64_t seed) {
  for (std::size_t b = 0; b < RandomBackward::kWorkspace; ++b) {
    const auto at = std::mismatch(is[b].begin(), is[b].end(), wanted[b].begin()).first - is[b].begin();
    ASSERT_EQ(static_cast<std::size_t>(at), is[b].size()) << "seed " << seed << ", buffer " << b << ", byte " << at;
  }
}

class RandomBackwards : public EveryTarget {
 protected:
  void expect_naive(std::uint64_t first, std::uint64_t end) {
    for (std::uint64_t seed = first; seed < end; ++seed) {
      const RandomBackward call(seed);
      RandomBackward::Memory wanted = call.memory();
      ASSERT_TRUE(call.run(wanted, naive).ok());
      on_every_target([&] {
        RandomBackward::Memory is = call.memory();
        const Status status = call.run(is, library);
        ASSERT_TRUE(status.ok()) << status.message() << ", seed " << seed;
        expect_same(is, wanted, seed);
      });
      if (HasFatalFailure()) return;
    }
  }
};

TEST_F(RandomBackwards, give_what_the_naive_one_gives) { expect_naive(1, 40); }
TEST_F(RandomBackwards, by_hundreds_give_what_the_naive_one_gives) { expect_naive(40, 300); }

TEST_F(RandomBackwards, add_in_the_written_order) {
  for (const std::int64_t weight_heads : {1, 3}) {
    LargeAndSmall wanted;
    ASSERT_TRUE(wanted.run(weight_heads, naive).ok());
    on_every_target([&] {
      LargeAndSmall is;
      ASSERT_TRUE(is.run(weight_heads, library).ok());
      EXPECT_EQ(is.by_weight, wanted.by_weight);
      EXPECT_EQ(is.by_input, wanted.by_input);
    });
  }
}

/// Tasks in any order, on as many threads as `context` says.
void on_threads(void* context, std::int64_t tasks, void (*task)(void* task_context, std::int64_t index), void* task_context) {
  const int count = *static_cast<int*>(context);
  std::vector<std::thread> threads;
  for (int t = 0; t < count; ++t) {
    threads.emplace_back([=] {
      for (std::int64_t i = tasks - 1 - t; i >= 0; i -= count) task(task_context, i);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(Backwards, do_not_depend_on_threads) {
  for (std::uint64_t seed = 2000; seed < 2060; ++seed) {
    const RandomBackward call(seed);
    RandomBackward::Memory wanted = call.memory();
    ASSERT_TRUE(call.run(wanted, library).ok());
    for (int threads = 1; threads <= 5; threads += 2) {
      RandomBackward::Memory is = call.memory();
      const Status status = call.run(is, [&](const auto& inputs, const auto& rotation, const auto& gradients, const auto& spec) {
        return prepare_attention_backward(inputs, rotation, gradients, spec, {.runner = {on_threads, &threads}});
      });
      ASSERT_TRUE(status.ok()) << status.message();
      expect_same(is, wanted, seed);
    }
  }
}

}  // namespace
}  // namespace phasor::test
