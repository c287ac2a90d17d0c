// SPDX-License-Identifier: Apache-2.0
// The soft cap beside a dense bias of -infinity: what is hidden stays hidden.
#include <gtest/gtest.h>

#include <limits>

#include "attention/support/every_target.hpp"

namespace phasor::test {
namespace {

constexpr double kHidden = -std::numeric_limits<double>::infinity();

/// A bias for every score, -infinity where the query does not see the key.
template <class Sees>
ref::Dense dense(const ref::Shape& s, const Sees& sees) {
  Numbers random(1);
  ref::Dense made{.extents = {s.batch, s.heads, s.queries, s.keys}, .bias = random.values(s.batch * s.heads * s.queries * s.keys)};
  for (std::size_t n = 0; n < made.bias.size(); ++n) {
    const auto at = static_cast<std::int64_t>(n);
    if (!sees(at / s.keys % s.queries, at % s.keys)) made.bias[n] = kHidden;
  }
  return made;
}

/// Decoding, one tile, several.
TEST(attention_softcap, a_dense_minus_infinity_hides_a_key_as_well) {
  for (const std::int64_t queries : {2, 40, 110}) {
    ref::Problem p =
        random_problem({.batch = 2, .queries = queries, .keys = 150, .heads = 2, .key_heads = 1, .width = 5, .value_width = 3}, 2);
    p.softcap = 2;
    p.schemes = {dense(p.shape, [](std::int64_t i, std::int64_t j) { return i != 1 && (i + 2 * j) % 3 != 0; })};
    expect_on_every_target(p, std::to_string(queries) + " queries");
  }
}

/// Without the reference: hidden by a bias is as hidden by causality.
TEST(attention_softcap, what_a_bias_hides_is_as_what_causality_hides) {
  ref::Problem p = random_problem({.batch = 1, .queries = 100, .keys = 100, .heads = 2, .key_heads = 2, .width = 5, .value_width = 3}, 3);
  p.softcap = 2;
  ref::Problem causal = p;
  causal.visibility.causal = true;
  p.schemes = {dense(p.shape, [](std::int64_t i, std::int64_t j) { return j <= i; })};
  causal.schemes = {dense(p.shape, [](std::int64_t, std::int64_t) { return true; })};
  Bridge by_bias(p, DType::f64);
  Bridge by_mask(causal, DType::f64);
  Numbers random(4);
  const ref::Values out_gradient = random.values(100 * 2 * 3);
  for (Bridge* bridge : {&by_bias, &by_mask}) {
    ASSERT_TRUE(bridge->forward().ok());
    ASSERT_TRUE(bridge->backward(out_gradient).ok());
  }
  expect_same(by_bias.output(), by_mask.output(), "outputs");
  const ref::Gradients is = by_bias.reference_gradients();
  const ref::Gradients wanted = by_mask.reference_gradients();
  EXPECT_LE(apart(is.q, wanted.q), kSameTolerance);
  EXPECT_LE(apart(is.k, wanted.k), kSameTolerance);
  EXPECT_LE(apart(is.v, wanted.v), kSameTolerance);
  EXPECT_LE(apart(std::get<ref::Dense>(is.schemes[0]).bias, std::get<ref::Dense>(wanted.schemes[0]).bias), kSameTolerance);
}

}  // namespace
}  // namespace phasor::test
