// SPDX-License-Identifier: Apache-2.0
// Random calls of prepare_attention give, byte for byte, what the naive one gives, on every target; all other bytes stay.
#include <gtest/gtest.h>

#include "prepare/naive.hpp"
#include "prepare/random_prepare.hpp"
#include "tensor.hpp"

namespace phasor::test {
namespace {

Status naive(const PrepareInputs& inputs, const PrepareRotation& rotation, const PrepareOutputs& outputs, const PrepareSpec& spec) {
  reference::NaivePrepare(inputs, rotation, outputs, spec).run();
  return {};
}
Status prepared(const PrepareInputs& inputs, const PrepareRotation& rotation, const PrepareOutputs& outputs, const PrepareSpec& spec) {
  return prepare_attention(inputs, rotation, outputs, spec);
}

class RandomPrepares : public EveryTarget {
 protected:
  void expect_naive(std::uint64_t first, std::uint64_t end) {
    for (std::uint64_t seed = first; seed < end; ++seed) {
      const RandomPrepare call(seed);
      Memory8 wanted = call.memory();
      ASSERT_TRUE(call.run(wanted, naive).ok());
      on_every_target([&] {
        Memory8 is = call.memory();
        const Status status = call.run(is, prepared);
        ASSERT_TRUE(status.ok()) << status.message() << ", seed " << seed;
        call.forget_nans(is, wanted);
        for (std::size_t b = 0; b < wanted.size(); ++b) {
          const auto at = std::mismatch(is[b].begin(), is[b].end(), wanted[b].begin()).first - is[b].begin();
          ASSERT_EQ(static_cast<std::size_t>(at), is[b].size()) << "seed " << seed << ", buffer " << b << ", byte " << at;
        }
      });
    }
  }
};

TEST_F(RandomPrepares, give_what_the_naive_one_gives) { expect_naive(1, 60); }
TEST_F(RandomPrepares, by_hundreds_give_what_the_naive_one_gives) { expect_naive(60, 1000); }

}  // namespace
}  // namespace phasor::test
