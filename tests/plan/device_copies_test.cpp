// SPDX-License-Identifier: Apache-2.0
// Copies of a plan's lists that devices made: each is made once, kept, and given back once. The device here is the host.
#include "plan/device_copies.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#if !defined(__EMSCRIPTEN__)  // WebAssembly is built without threads
#include <thread>
#endif

#include "plan/bias/bias.hpp"

namespace phasor::test {
namespace {

using plan::DeviceCopies;

int made = 0;
int released = 0;

Status make(const DeviceCopies::Of& of, void*& memory) {
  ++made;
  memory = new std::byte[of.bytes];
  std::memcpy(memory, of.list, of.bytes);
  return {};
}
void release(int /*device*/, void* memory) {
  ++released;
  delete[] static_cast<std::byte*>(memory);
}
Status make_none(const DeviceCopies::Of& /*of*/, void*& /*memory*/) { return Status::out_of_memory(); }

constexpr DeviceCopies::Maker kMaker = {make, release};

class DeviceCopiesTest : public testing::Test {
 protected:
  DeviceCopiesTest() { made = released = 0; }
  const std::vector<double> list_ = {1, 2, 3};
  DeviceCopies::Of of(int device) const { return {device, list_.data(), list_.size() * sizeof(double)}; }
};

TEST_F(DeviceCopiesTest, a_list_is_copied_once_for_each_device) {
  {
    const DeviceCopies copies;
    const void* const first = *copies.get(of(0), kMaker);
    EXPECT_EQ(std::memcmp(first, list_.data(), 24), 0);
    EXPECT_EQ(*copies.get(of(0), kMaker), first);
    EXPECT_NE(*copies.get(of(3), kMaker), first);
    EXPECT_NE(*copies.get({0, list_.data(), 8}, kMaker), first);
    EXPECT_EQ(made, 3);
    EXPECT_EQ(released, 0);
  }
  EXPECT_EQ(released, 3);
}

TEST_F(DeviceCopiesTest, another_plan_has_none) {
  DeviceCopies copies;
  ASSERT_TRUE(copies.get(of(0), kMaker).ok());
  const DeviceCopies other(copies);
  ASSERT_TRUE(other.get(of(0), kMaker).ok());
  EXPECT_EQ(made, 2);
  copies = other;
  EXPECT_EQ(released, 1);
  ASSERT_TRUE(copies.get(of(0), kMaker).ok());
  EXPECT_EQ(made, 3);
}

TEST_F(DeviceCopiesTest, a_copy_that_fails_is_tried_again) {
  const DeviceCopies copies;
  EXPECT_EQ(copies.get(of(0), {make_none, release}).status().kind(), ErrorKind::out_of_memory);
  EXPECT_TRUE(copies.get(of(0), kMaker).ok());
  EXPECT_EQ(made, 1);
}

#if !defined(__EMSCRIPTEN__)
TEST_F(DeviceCopiesTest, threads_share_one) {
  const DeviceCopies copies;
  std::vector<std::thread> threads;
  std::vector<const void*> found(4);
  for (std::size_t i = 0; i < found.size(); ++i) threads.emplace_back([&, i] { found[i] = *copies.get(of(0), kMaker); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(made, 1);
  for (const void* const copy : found) EXPECT_EQ(copy, found[0]);
}
#endif

/// A training step makes a plan of other numbers from the one before: what devices hold is not its.
TEST_F(DeviceCopiesTest, other_parameters_are_another_plan) {
  const plan::BiasPlan plan = *plan::make_bias_plan(Alibi{.heads = 2});
  const std::vector<double> slopes = {1, 2};
  const plan::BiasPlan other = *plan::with_parameters(plan, slopes);
  EXPECT_NE(plan::source_of(plan).copies, plan::source_of(other).copies);
  std::vector<double> of_a_call = slopes;
  EXPECT_EQ(plan::with_parameters(plan::source_of(plan), of_a_call).copies, nullptr);
}

}  // namespace
}  // namespace phasor::test
