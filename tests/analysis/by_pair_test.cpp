// SPDX-License-Identifier: Apache-2.0
// Errors pair by pair and scores axis by axis, against the formulas written out.
#include "phasor/analysis_by_pair.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace phasor::test {
namespace {

/// position root^pair, where root^pair is base^(-2 pair / width). By products: musl's powl, which WebAssembly has, is no better than pow.
long double angle_of(long double position, long double root, int pair) {
  for (int i = 0; i < pair; ++i) position *= root;
  return position;
}

/// The error of a cosine and sine by Hugging Face's float32 angles, each step of its formula rounded: 64 channels, base 10000.
double hf_error(std::int64_t position, int pair) {
  const float exponent = static_cast<float>(2 * pair) / 64;
  const float frequency = 1.0F / static_cast<float>(std::pow(10000.0, static_cast<double>(exponent)));
  const float angle = static_cast<float>(position) * frequency;
  const long double truth = angle_of(static_cast<long double>(position), 0.74989420933245582730218427561513643844L, pair);  // 10^(-1/8)
  const auto cos = static_cast<float>(std::cos(static_cast<double>(angle)));
  const auto sin = static_cast<float>(std::sin(static_cast<double>(angle)));
  return static_cast<double>(std::max(std::abs(cos - std::cos(truth)), std::abs(sin - std::sin(truth))));
}

TEST(PairErrors, hugging_face_is_off_by_what_its_formula_is) {
  const std::vector<std::int64_t> at{1, 1000, 123457, 1000000};
  const auto all = pair_errors({.head_dim = 64}, at);
  ASSERT_TRUE(all.ok()) << all.status().message();
  ASSERT_EQ(all->size(), 4U);
  const PairErrors& hf = (*all)[1];
  ASSERT_EQ(hf.numerics, Numerics::hf);
  ASSERT_EQ(hf.errors.rows, 4);
  ASSERT_EQ(hf.errors.columns, 32);
  for (std::size_t i = 0; i < hf.errors.values.size(); ++i) {
    EXPECT_NEAR(hf.errors.values[i], hf_error(at[i / 32], static_cast<int>(i % 32)), 1e-12) << i;
  }
}

TEST(PairErrors, the_library_is_within_half_a_place_and_the_largest_is_that_of_the_profile) {
  const RotarySpec spec{.head_dim = 128, .base = 500000, .scaling = Llama3Scaling{}};
  const std::vector<std::int64_t> at{10, 10000, 10000000};
  const auto all = pair_errors(spec, at);
  const auto whole = profile_errors(spec, at);
  ASSERT_TRUE(all.ok() && whole.ok());
  for (const PairErrors& one : *all) {
    for (std::size_t i = 0; i < at.size(); ++i) {
      const auto first = one.errors.values.begin() + static_cast<std::ptrdiff_t>(i) * 64;
      const double largest = *std::max_element(first, first + 64);
      const ProfileError& profile = (*whole)[i];
      if (one.numerics == Numerics::exact) {
        EXPECT_LE(largest, 0x1p-25);
        EXPECT_EQ(largest, profile.exact);
      }
      if (one.numerics == Numerics::hf) {
        EXPECT_EQ(largest, profile.hf.value());
      }
      if (one.numerics == Numerics::vllm) {
        EXPECT_EQ(largest, profile.vllm.value());
      }
      if (one.numerics == Numerics::ggml) {
        EXPECT_EQ(largest, profile.ggml.value());
      }
    }
  }
}

TEST(PairErrors, what_it_cannot_do_is_an_error) {
  EXPECT_FALSE(pair_errors({.head_dim = 7}, std::vector<std::int64_t>{1}).ok());
  EXPECT_FALSE(pair_errors({.head_dim = 64}, std::vector<std::int64_t>(1 << 18, 1)).ok());
}

/// Three axes, of which pairs 0 and 1, 2 to 4, and 5 to 7 turn.
constexpr int kAxisOfPair[] = {0, 0, 1, 1, 1, 2, 2, 2};

TEST(AxisScores, each_axis_has_the_cosines_of_its_own_pairs) {
  const RotarySpec spec{.head_dim = 16, .axes = {.sections = {2, 3, 3}}};
  const std::vector<std::int64_t> at{0, 1, 2, 900, 0, 5, 7, 1000003, 0, 3, 3, 4};  // (3, 4)
  const auto rotary = Rotary::make(spec);
  ASSERT_TRUE(rotary.ok());
  const std::int64_t query = 2;
  const auto scores = axis_scores(*rotary, positions(at.data(), 3, 1, 4), query);
  ASSERT_TRUE(scores.ok()) << scores.status().message();
  EXPECT_EQ(scores->pairs_of_axis, (std::vector<std::int64_t>{2, 3, 3}));
  for (std::size_t t = 0; t < 4; ++t) {
    long double parts[3] = {0, 0, 0};
    for (int pair = 0; pair < 8; ++pair) {
      const int axis = kAxisOfPair[pair];
      const auto row = static_cast<std::size_t>(axis) * 4;
      const auto difference = static_cast<long double>(at[row + static_cast<std::size_t>(query)] - at[row + t]);
      parts[axis] += std::cos(angle_of(difference, 0.31622776601683793319988935444327185337L, pair)) / 8;
    }
    for (std::size_t axis = 0; axis < 3; ++axis) {
      EXPECT_NEAR(scores->by_axis.values[axis * 4 + t], static_cast<double>(parts[axis]), 1e-13) << t;
    }
    EXPECT_NEAR(scores->score[t], static_cast<double>(parts[0] + parts[1] + parts[2]), 1e-13);
  }
  EXPECT_NEAR(scores->score[2], 1, 1e-15);
}

TEST(AxisScores, an_amplitude_changes_nothing_and_text_has_one_position_for_all_axes) {
  RotarySpec spec{.head_dim = 16, .scaling = GivenFactors{std::vector<double>(8, 2.0), 3}, .axes = {.sections = {4, 4}}};
  const std::vector<std::int64_t> at{5, 6, 9};
  const auto loud = Rotary::make(spec);
  std::get<GivenFactors>(spec.scaling).amplitude = 1;
  const auto plain = Rotary::make(spec);
  ASSERT_TRUE(loud.ok() && plain.ok());
  const auto a = axis_scores(*loud, positions(at.data(), 3), 0);
  const auto b = axis_scores(*plain, positions(at.data(), 3), 0);
  ASSERT_TRUE(a.ok() && b.ok());
  for (std::size_t t = 0; t < 3; ++t) EXPECT_NEAR(a->score[t], b->score[t], 1e-15);
}

TEST(AxisScores, directions_are_scored_along_one_axis_at_a_time) {
  // Two pairs, each along both axes; two heads of which the second is asked for.
  const GivenDirections directions{.axes = 2, .heads = 2, .frequencies = {1, 2, 0.5, 0.25, 3, 4, -0.75, 0.125}};
  const auto rotary = Rotary::make({.head_dim = 4, .scaling = directions});
  ASSERT_TRUE(rotary.ok()) << rotary.status().message();
  const std::vector<std::int64_t> at{0, 3, 0, 2};  // tokens (0, 0) and (3, 2)
  const auto scores = axis_scores(*rotary, positions(at.data(), 2, 1, 2), 0, 1);
  ASSERT_TRUE(scores.ok()) << scores.status().message();
  EXPECT_TRUE(scores->pairs_of_axis.empty());
  EXPECT_NEAR(scores->score[1], (std::cos(3 * 0.5 - 2 * 0.75) + std::cos(3 * 0.25 + 2 * 0.125)) / 2, 1e-15);
  EXPECT_NEAR(scores->by_axis.values[1], (std::cos(3 * 0.5) + std::cos(3 * 0.25)) / 2, 1e-15);
  EXPECT_NEAR(scores->by_axis.values[3], (std::cos(2 * 0.75) + std::cos(2 * 0.125)) / 2, 1e-15);
  EXPECT_FALSE(axis_scores(*rotary, positions(at.data(), 2, 1, 2), 0, 2).ok());
}

TEST(AxisScores, queries_and_positions_that_are_not_there_are_errors) {
  const auto rotary = Rotary::make({.head_dim = 16, .axes = {.sections = {4, 4}}});
  ASSERT_TRUE(rotary.ok());
  const std::vector<std::int64_t> at{0, 1, 2, 3, 4, 5};
  EXPECT_FALSE(axis_scores(*rotary, positions(at.data(), 2, 1, 3), 3).ok());
  EXPECT_FALSE(axis_scores(*rotary, positions(at.data(), 2, 1, 3), -1).ok());
  EXPECT_FALSE(axis_scores(*rotary, positions(at.data(), 3, 1, 2), 0).ok());
  EXPECT_FALSE(axis_scores(*rotary, positions_from(0), 0).ok());
}

}  // namespace
}  // namespace phasor::test
