// SPDX-License-Identifier: Apache-2.0
// The check that scores depend on the distance alone: it passes where they do, and fails where they do not.
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "math/portable.hpp"
#include "phasor/analysis.hpp"

namespace phasor::test {
namespace {

constexpr std::int64_t kTokens = 37;
constexpr std::int64_t kHeads = 6;
constexpr std::int64_t kKeyHeads = 3;
constexpr std::int64_t kDim = 32;
constexpr std::int64_t kFar = 1000000;

/// Values in (-1, 1) from a fixed generator.
std::vector<float> draw(std::int64_t heads, std::uint64_t state) {
  std::vector<float> values(static_cast<std::size_t>(kTokens * heads * kDim));
  for (float& value : values) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    value = static_cast<float>(static_cast<std::int64_t>(state) >> 40) * 0x1p-23F;
  }
  return values;
}

struct Heads {
  std::vector<float> q = draw(kHeads, 1);
  std::vector<float> k = draw(kKeyHeads, 2);
  Extents q_shape{1, kTokens, kHeads, kDim};
  Extents k_shape{1, kTokens, kKeyHeads, kDim};

  Result<DistanceCheck> check(const Rotary& rotary, std::int64_t far = kFar) const {
    return distance_check(rotary, view(q.data(), q_shape), view(k.data(), k_shape), far);
  }
};

Rotary rotary() { return *Rotary::make({.head_dim = kDim}); }

TEST(DistanceCheck, exact_scores_depend_on_the_distance_alone_and_float32_scores_do_not) {
  const auto check = Heads().check(rotary());
  ASSERT_TRUE(check.ok()) << check.status().message();
  EXPECT_GT(check->largest_score, 1);
  EXPECT_GT(check->exact_difference, 0);
  EXPECT_LE(check->exact_difference, check->rounding);
  EXPECT_GT(check->float32_difference, 100 * check->rounding);
}

TEST(DistanceCheck, exact_scores_hold_at_the_end_of_all_positions) {
  const auto check = Heads().check(rotary(), std::numeric_limits<std::int64_t>::max() - kTokens);
  ASSERT_TRUE(check.ok()) << check.status().message();
  EXPECT_LE(check->exact_difference, check->rounding);
}

TEST(DistanceCheck, every_query_in_every_head_is_compared_at_distances_that_double) {
  // 37 tokens: distance 0 of each, then 1, 2, 4, 8, 16 and 32 where they fit.
  const auto check = Heads().check(rotary());
  ASSERT_TRUE(check.ok());
  EXPECT_EQ(check->scores, kHeads * (37 + 36 + 35 + 33 + 29 + 21 + 5));
}

TEST(DistanceCheck, the_allowance_grows_with_the_amplitude_so_that_yarn_passes) {
  const auto yarn = Rotary::make({.head_dim = kDim, .scaling = YarnScaling{.factor = 16, .original_length = 4096}});
  ASSERT_TRUE(yarn.ok()) << yarn.status().message();
  const auto check = Heads().check(*yarn);
  ASSERT_TRUE(check.ok()) << check.status().message();
  EXPECT_LE(check->exact_difference, check->rounding);
}

TEST(DistanceCheck, the_allowance_of_bf16_is_that_of_its_storage) {
  const Heads heads;
  const auto narrow = [](const std::vector<float>& from) {
    std::vector<BFloat16> to;
    for (const float x : from) to.push_back({static_cast<std::uint16_t>(math::bit_cast<std::uint32_t>(x) >> 16)});
    return to;
  };
  const std::vector<BFloat16> q = narrow(heads.q);
  const std::vector<BFloat16> k = narrow(heads.k);
  const auto check = distance_check(rotary(), view(q.data(), heads.q_shape), view(k.data(), heads.k_shape), kFar);
  ASSERT_TRUE(check.ok()) << check.status().message();
  const auto wide = heads.check(rotary());
  EXPECT_LE(check->exact_difference, check->rounding);
  EXPECT_GT(check->exact_difference, wide->rounding);
}

TEST(DistanceCheck, one_value_that_is_not_a_number_fails_the_check) {
  Heads heads;
  heads.q[5] = std::numeric_limits<float>::quiet_NaN();
  const auto check = heads.check(rotary());
  ASSERT_TRUE(check.ok());
  EXPECT_FALSE(check->exact_difference <= check->rounding);
}

TEST(DistanceCheck, shapes_that_do_not_fit_are_errors) {
  const auto message = [](std::size_t axis, std::int64_t q_extent, std::int64_t k_extent) {
    Heads heads;
    heads.q_shape[axis] = q_extent;
    heads.k_shape[axis] = k_extent;
    return heads.check(rotary()).status().message();
  };
  EXPECT_EQ(message(0, 2, 1), "distance_check: q has batch 2, wanted 1");
  EXPECT_EQ(message(0, 1, 0), "distance_check: k has batch 0, wanted 1");
  EXPECT_EQ(message(1, 0, 0), "distance_check: tokens of q are 0, wanted at least 1");
  EXPECT_EQ(message(1, 37, 36), "distance_check: tokens of k are 36, wanted as many as q has, 37");
  EXPECT_EQ(message(2, 0, 3), "distance_check: heads of q are 0, wanted at least 1");
  EXPECT_EQ(message(2, 6, 4), "distance_check: heads of k are 4, wanted a divisor of 6");
  EXPECT_EQ(message(3, 30, 32), "distance_check: q has head_dim 30, wanted the spec's 32");
  EXPECT_EQ(message(3, 32, -2), "distance_check: k has head_dim -2, wanted the spec's 32");
}

TEST(CopyBytes, every_byte_is_copied_once_whatever_the_order_of_the_pieces) {
  const Runner backwards{[](void*, std::int64_t tasks, void (*task)(void*, std::int64_t), void* context) {
                           for (std::int64_t i = tasks; i-- > 0;) task(context, i);
                         },
                         nullptr};
  for (const std::int64_t bytes : {0, 1, 63, 64, 65, 4097, 100003}) {
    std::string from;
    for (std::int64_t i = 0; i < bytes; ++i) from.push_back(static_cast<char>(i * 31 % 127));
    for (const Runner& runner : {Runner{}, backwards}) {
      std::string to(from.size() + 1, '!');
      copy_bytes(to.data(), from.data(), bytes, runner);
      EXPECT_EQ(to, from + "!") << bytes;
    }
  }
}

TEST(DistanceCheck, tensors_that_no_memory_could_copy_are_an_error_and_no_exception) {
  const auto rotary = Rotary::make({.head_dim = 128});
  ASSERT_TRUE(rotary.ok());
  float one = 1;
  const auto huge = view(&one, {1, std::int64_t{1} << 54, 1, 128}, {0, 0, 0, 1});
  const auto result = distance_check(*rotary, huge, huge, 1000);
  EXPECT_FALSE(result.ok());
  EXPECT_EQ(result.status().message().find("distance_check: "), 0U) << result.status().message();
}

}  // namespace
}  // namespace phasor::test
