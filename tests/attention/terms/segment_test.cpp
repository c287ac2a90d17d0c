// SPDX-License-Identifier: Apache-2.0
// Segments (XLNet) against the reference: forward and gradients, batch rows and heads that share, and what is refused.
#include <gtest/gtest.h>

#include "attention/support/every_target.hpp"

namespace phasor::test {
namespace {

ref::Xlnet xlnet(const ref::Shape& s) {
  Numbers random(21);
  ref::Xlnet made = random_xlnet(s, random);
  made.key_segments.clear();
  for (std::int64_t n = 0; n < s.batch * s.keys; ++n) made.key_segments.push_back(n % 7 / 3 - 1);
  return made;
}

TEST(attention_segment, xlnet_under_every_mask) {
  for (MaskedProblem& masked : masked_problems()) {
    masked.problem.schemes = {xlnet(masked.problem.shape)};
    expect_on_every_target(masked.problem, masked.name);
  }
}

constexpr ref::Shape kShape{.batch = 2, .queries = 33, .keys = 70, .heads = 4, .key_heads = 2, .width = 5, .value_width = 3};

TEST(attention_segment, the_order_of_tasks_does_not_matter) {
  ref::Problem p = random_problem(kShape, 3);
  p.schemes = {xlnet(kShape)};
  expect_same_bits_by_any_runner(p, "xlnet");
}

/// Heads share table and shift, batch rows share segments: the same as copies.
TEST(attention_segment, shared_tensors_are_as_copies) {
  ref::Problem p = random_problem(kShape, 4);
  ref::Xlnet scheme = xlnet(kShape);
  const auto width = static_cast<std::size_t>(kShape.width);
  const std::size_t heads = 4;
  for (std::size_t n = 0; n < 2 * heads * width; ++n) {
    scheme.segment_table[n] = scheme.segment_table[n / (heads * width) * heads * width + n % width];
    if (n < heads * width) scheme.segment_bias[n] = scheme.segment_bias[n % width];
  }
  const auto keys = static_cast<std::size_t>(kShape.keys);
  for (std::size_t j = 0; j < keys; ++j) scheme.key_segments[keys + j] = scheme.key_segments[j];
  p.schemes = {scheme};
  Bridge bridge(p, DType::f64);
  Wanted wanted(bridge.problem, DType::f64);
  auto& term = std::get<SegmentTerm>(bridge.spec.terms[1]);
  TermGradient& gradient = bridge.gradients.terms[1];
  term.table.shape[2] = gradient.table.shape[2] = term.shift.shape[2] = gradient.shift.shape[2] = 1;
  term.key_segments.shape[1] = 1;
  ASSERT_TRUE(bridge.forward().ok()) << bridge.forward().message();
  expect_near(bridge.output().out, wanted.output.out, DType::f64, "out");
  ASSERT_TRUE(bridge.backward(wanted.out_gradient, wanted.lse_gradient).ok());
  const ref::Gradients is = bridge.reference_gradients();
  const auto& own = std::get<ref::Xlnet>(is.schemes[0]);
  const auto& theirs = std::get<ref::Xlnet>(wanted.gradients.schemes[0]);
  expect_near(is.q, wanted.gradients.q, DType::f64, "dq");
  for (std::size_t c = 0; c < width; ++c) {
    ref::Values sum(3, 0);
    for (std::size_t h = 0; h < heads; ++h) {
      sum[0] += theirs.segment_table[h * width + c];
      sum[1] += theirs.segment_table[(heads + h) * width + c];
      sum[2] += theirs.segment_bias[h * width + c];
    }
    expect_near({own.segment_table[c], own.segment_table[heads * width + c], own.segment_bias[c]}, sum, DType::f64, "shared gradients");
  }
}

TEST(attention_segment, what_does_not_fit_is_an_error) {
  ref::Problem p = random_problem(kShape, 5);
  p.schemes = {xlnet(kShape)};
  Bridge bridge(p, DType::f32);
  auto& term = std::get<SegmentTerm>(bridge.spec.terms[1]);
  const SegmentTerm good = term;
  term.query_segments = {};
  EXPECT_EQ(failure_of(bridge), "attention: terms[1]: query_segments has no memory, wanted a segment for each of 33 tokens");
  term = good;
  term.key_segments.shape[2] = 69;
  EXPECT_EQ(failure_of(bridge), "attention: terms[1]: key_segments: positions have 69 tokens, wanted 70");
  term = good;
  const std::vector<double> fractions(70, 0.5);
  term.key_segments = positions(fractions.data(), 70);
  EXPECT_EQ(failure_of(bridge), "attention: terms[1]: key_segments is f64, wanted integers");
  const std::vector<std::int64_t> large(70, (1 << 24) + 1);
  term.key_segments = positions(large.data(), 70);
  EXPECT_EQ(failure_of(bridge), "attention: terms[1]: key_segments has segment 16777217, wanted at most 2^24 either way");
  term = good;
  term.table.shape[1] = 3;
  EXPECT_EQ(failure_of(bridge), "attention: terms[1]: table has 3 on its second axis, wanted 2");
}

}  // namespace
}  // namespace phasor::test
