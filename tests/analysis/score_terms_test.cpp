// SPDX-License-Identifier: Apache-2.0
// The score of x + p in four terms: they are what the definition says and sum to the score.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "phasor/analysis.hpp"
#include "tensor.hpp"

namespace phasor::test {
namespace {

constexpr std::size_t kTokens = 5;
constexpr std::size_t kWidth = 7;
constexpr std::size_t kHead = 3;
/// Sums of at most 7 * 7 * 3 products of numbers below 64, in double.
constexpr double kRounding = 0x1p-33;

std::vector<float> numbers(std::size_t count, std::uint64_t seed) {
  test::Random random(seed);
  std::vector<float> list;
  for (std::size_t i = 0; i < count; ++i) list.push_back(random.number());
  return list;
}

/// row i of x times W_q, times row j of y times W_k.
double naive(const float* x, const float* y, const std::vector<float>& w_q, const std::vector<float>& w_k) {
  long double sum = 0;
  for (std::size_t e = 0; e < kHead; ++e) {
    for (std::size_t a = 0; a < kWidth; ++a) {
      for (std::size_t b = 0; b < kWidth; ++b) {
        sum += static_cast<long double>(x[a]) * w_q[kHead * a + e] * y[b] * w_k[kHead * b + e];
      }
    }
  }
  return static_cast<double>(sum);
}

TEST(ScoreTerms, are_those_of_the_definition_and_sum_to_the_score) {
  const auto x = numbers(kTokens * kWidth, 1);
  const auto p = numbers(kTokens * kWidth, 2);
  const auto w_q = numbers(kWidth * kHead, 3);
  const auto w_k = numbers(kWidth * kHead, 4);
  const Extents rows{1, kTokens, 1, kWidth};
  const Extents weights{1, kWidth, 1, kHead};
  const auto terms = score_terms({view(x.data(), rows), view(p.data(), rows), view(w_q.data(), weights), view(w_k.data(), weights), 0.5});
  ASSERT_TRUE(terms.ok()) << terms.status().message();
  for (std::size_t i = 0; i < kTokens; ++i) {
    for (std::size_t j = 0; j < kTokens; ++j) {
      const std::size_t at = i * kTokens + j;
      const float* const from[] = {x.data() + i * kWidth, p.data() + i * kWidth};
      const float* const to[] = {x.data() + j * kWidth, p.data() + j * kWidth};
      EXPECT_NEAR(terms->content_content.values[at], 0.5 * naive(from[0], to[0], w_q, w_k), kRounding);
      EXPECT_NEAR(terms->content_position.values[at], 0.5 * naive(from[0], to[1], w_q, w_k), kRounding);
      EXPECT_NEAR(terms->position_content.values[at], 0.5 * naive(from[1], to[0], w_q, w_k), kRounding);
      EXPECT_NEAR(terms->position_position.values[at], 0.5 * naive(from[1], to[1], w_q, w_k), kRounding);
      EXPECT_NEAR(terms->score.values[at],
                  terms->content_content.values[at] + terms->content_position.values[at] + terms->position_content.values[at] +
                      terms->position_position.values[at],
                  kRounding);
    }
  }
}

TEST(ScoreTerms, without_projections_are_plain_inner_products) {
  const std::vector<double> x{1, 0, 2, 3};
  const std::vector<double> p{0, 1, 0.5, -1};
  const auto terms = score_terms({view(x.data(), {1, 2, 1, 2}), view(p.data(), {1, 2, 1, 2})});
  ASSERT_TRUE(terms.ok());
  EXPECT_EQ(terms->content_content.values, (std::vector<double>{1, 2, 2, 13}));
  EXPECT_EQ(terms->content_position.values, (std::vector<double>{0, 0.5, 3, -2}));
  EXPECT_EQ(terms->position_content.values, (std::vector<double>{0, 3, 0.5, -2}));
  EXPECT_EQ(terms->position_position.values, (std::vector<double>{1, -1, -1, 1.25}));
  EXPECT_EQ(terms->score.values, (std::vector<double>{2, 4.5, 4.5, 10.25}));
}

TEST(ScoreTerms, position_with_position_of_a_sinusoid_is_its_decay) {
  const Rotary rotary = *Rotary::make({.head_dim = 10});
  std::vector<double> p(9 * 10);
  ASSERT_TRUE(
      rotary.cos_sin(positions_from(0), view(p.data(), {1, 9, 1, 5}, {0, 10, 0, 1}), view(p.data() + 5, {1, 9, 1, 5}, {0, 10, 0, 1})).ok());
  const std::vector<double> x(9 * 10, 0.25);
  const auto terms = score_terms({view(x.data(), {1, 9, 1, 10}), view(p.data(), {1, 9, 1, 10})});
  const std::int64_t distance[] = {6};
  EXPECT_NEAR(terms->position_position.values[2 * 9 + 8], decay(rotary, distance)->front(), 0x1p-48);
}

TEST(ScoreTerms, name_what_does_not_fit) {
  const std::vector<float> x(64);
  const auto message = [&](const Extents& p, const Extents& w_q, const Extents& w_k) {
    return score_terms({view(x.data(), {1, 3, 1, 4}), view(x.data(), p), view(x.data(), w_q), view(x.data(), w_k)}).status().message();
  };
  EXPECT_EQ(message({1, 3, 1, 4}, {1, 4, 1, 2}, {1, 4, 1, 2}), "");
  EXPECT_EQ(message({1, 2, 1, 4}, {1, 4, 1, 2}, {1, 4, 1, 2}), "score_terms: p has 2 rows of 4, wanted those of x, 3 of 4");
  EXPECT_EQ(message({1, 3, 1, 4}, {1, 5, 1, 2}, {1, 4, 1, 2}), "score_terms: query_weights have 5 rows, wanted the width of x, 4");
  EXPECT_EQ(message({1, 3, 1, 4}, {1, 4, 1, 2}, {1, 4, 1, 3}), "score_terms: keys have width 3, wanted that of the queries, 2");
  EXPECT_EQ(message({1, 3, 2, 4}, {1, 4, 1, 2}, {1, 4, 1, 3}), "score_terms: heads of p: 2, wanted 1");
  EXPECT_EQ(score_terms({}).status().message(), "score_terms: batch of x: 0, wanted 1");
}

}  // namespace
}  // namespace phasor::test
