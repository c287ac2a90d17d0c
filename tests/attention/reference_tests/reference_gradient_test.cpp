// SPDX-License-Identifier: Apache-2.0
// Gradients of the reference against central differences: every scheme, every mask, every input.
#include <gtest/gtest.h>

#include "attention/support/finite_differences.hpp"

namespace phasor::test {
namespace {

constexpr ref::Shape kShape{.batch = 1, .queries = 3, .keys = 6, .heads = 2, .key_heads = 2, .width = 4, .value_width = 2};

void expect_gradients(const ref::Problem& p, const std::string& name) {
  const Loss loss(p, 99);
  const Comparison c = compare_with_differences(p, ref::backward(p, loss.out, loss.lse), loss);
  EXPECT_LE(c.worst, kDifferenceTolerance) << name << " " << c.where;
  EXPECT_TRUE(c.silent.empty()) << name << ": " << c.silent.front() << " has no gradient";
  EXPECT_GT(c.count, 0U);
}

/// One problem per scheme, under a mask; schemes that want causality get it.
void expect_every_gradient(const ref::Shape& shape, const ref::Visibility& visibility, double softcap = 0) {
  for (const NamedScheme& one : every_scheme(shape, 7)) {
    ref::Problem p = random_problem(shape, 5);
    p.visibility = visibility;
    p.visibility.causal |= one.causal_only;
    if (one.causal_only) p.visibility.prefix = {};
    p.softcap = softcap;
    p.schemes = {one.scheme};
    expect_gradients(p, one.name);
  }
}

TEST(attention_reference_gradient, plain) {
  ref::Problem p = random_problem(kShape, 1);
  expect_gradients(p, "plain");
  p.softcap = 0.8;
  expect_gradients(p, "softcap");
}

TEST(attention_reference_gradient, every_scheme_without_a_mask) { expect_every_gradient(kShape, {}); }
TEST(attention_reference_gradient, every_scheme_causal) { expect_every_gradient(kShape, {.causal = true}); }
TEST(attention_reference_gradient, every_scheme_in_a_window) { expect_every_gradient(kShape, {.left = 3, .right = 1}); }
TEST(attention_reference_gradient, every_scheme_with_a_soft_cap) { expect_every_gradient(kShape, {.left = 4}, 0.9); }

TEST(attention_reference_gradient, every_scheme_with_more_queries_than_keys) {
  ref::Shape shape = kShape;
  shape.queries = 7;
  shape.keys = 4;
  for (const NamedScheme& one : every_scheme(shape, 7)) {
    ref::Problem p = random_problem(shape, 5);
    p.visibility.causal = one.causal_only;
    p.query_positions = {0, 1, 2, 3, 5, 6, 7};
    p.key_positions = {0, 2, 3, 4};
    p.schemes = {one.scheme};
    expect_gradients(p, one.name);
  }
}

TEST(attention_reference_gradient, every_scheme_with_grouped_heads_and_batches) {
  expect_every_gradient({.batch = 2, .queries = 2, .keys = 4, .heads = 4, .key_heads = 2, .width = 4, .value_width = 1}, {.causal = true});
}

TEST(attention_reference_gradient, every_scheme_with_one_key_head) {
  expect_every_gradient({.batch = 1, .queries = 4, .keys = 4, .heads = 3, .key_heads = 1, .width = 4, .value_width = 2}, {.right = 2});
}

TEST(attention_reference_gradient, every_scheme_over_ragged_sequences) {
  expect_every_gradient({.batch = 1, .queries = 6, .keys = 8, .heads = 2, .key_heads = 1, .width = 4, .value_width = 2},
                        {.query_starts = {0, 4, 6}, .key_starts = {0, 4, 8}});
}

TEST(attention_reference_gradient, every_scheme_with_padding_and_a_prefix) {
  expect_every_gradient(kShape, {.causal = true, .prefix = {4}, .key_mask = {0, 1, 1, 1, 1, 1}});
}

TEST(attention_reference_gradient, terms_add_up) {
  const std::vector<NamedScheme> all = every_scheme(kShape, 7);
  const auto named = [&](const std::string& name) {
    return std::find_if(all.begin(), all.end(), [&](const NamedScheme& one) { return one.name == name; })->scheme;
  };
  ref::Problem p = random_problem(kShape, 6);
  p.visibility.causal = true;
  p.softcap = 2;
  p.schemes = {named("rope"), named("t5"), named("shaw_kv"), named("transformer_xl"), named("inkling")};
  expect_gradients(p, "composed");
  const ref::Cell cell{0, 1, 2, 3};
  double sum = 0;
  for (const ref::Scheme& scheme : p.schemes) {
    ref::Problem alone = p;
    alone.schemes = {scheme};
    sum += ref::score(alone, cell);
  }
  ref::Problem plain = p;  // the content that the last four counted too
  plain.schemes = {};
  EXPECT_NEAR(ref::score(p, cell), sum - 4 * ref::score(plain, cell), 1e-14);
}

TEST(attention_reference_gradient, the_checker_sees_one_wrong_number) {
  ref::Problem p = random_problem(kShape, 1);
  p.schemes = {ref::Alibi{{0.5, 0.3}}};
  const Loss loss(p, 99);
  const ref::Gradients right = ref::backward(p, loss.out, loss.lse);
  for (int which = 0; which < 4; ++which) {
    ref::Gradients wrong = right;
    ref::Values* const parts[] = {&wrong.q, &wrong.k, &wrong.v, &std::get<ref::Alibi>(wrong.schemes[0]).slopes};
    parts[which]->back() += 1e-8;
    EXPECT_GT(compare_with_differences(p, wrong, loss).worst, 10 * kDifferenceTolerance) << which;
  }
}

TEST(attention_reference_gradient, maps_want_a_causal_mask) {
  for (const NamedScheme& one : rotary_schemes()) {
    if (!one.causal_only) continue;
    ref::Problem p = random_problem(kShape, 1);
    p.schemes = {one.scheme};
    EXPECT_THROW(ref::forward(p), std::invalid_argument) << one.name;
    p.visibility = {.causal = true, .prefix = {2}};
    EXPECT_THROW(ref::forward(p), std::invalid_argument) << one.name;
  }
}

}  // namespace
}  // namespace phasor::test
