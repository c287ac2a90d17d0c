// SPDX-License-Identifier: Apache-2.0
// Outputs over sets of keys, merged: the whole again, whatever a part saw.
#include <gtest/gtest.h>

#include <limits>
#include <utility>
#include <vector>

#include "attention/support/compare.hpp"
#include "attention/support/held.hpp"

namespace phasor::test {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Keys [first, end) of a problem, run.
struct Part {
  Part(const ref::Problem& p, std::int64_t first, std::int64_t end, DType dtype) : bridge(with_keys(p, first, end), dtype) {
    const Status status = bridge.forward();
    EXPECT_TRUE(status.ok()) << status.message();
  }
  Bridge bridge;
  operator AttentionPart() const { return {bridge.outputs.out, bridge.outputs.lse}; }  // NOLINT(google-explicit-constructor)
};

ref::Problem problem(std::int64_t queries) {
  ref::Problem p =
      random_problem({.batch = 2, .queries = queries, .keys = 150, .heads = 4, .key_heads = 2, .width = 8, .value_width = 70}, 1);
  p.visibility.causal = true;
  return p;
}

TEST(merge_attention, parts_of_keys_make_the_whole) {
  for (const std::int64_t queries : {1, 40}) {
    for (const DType dtype : {DType::f64, DType::f32, DType::bf16}) {
      const ref::Problem p = problem(queries);
      const Part one(p, 0, 70, dtype);
      const Part two(p, 70, 71, dtype);
      const Part three(p, 71, 150, dtype);
      Bridge whole(p, dtype);
      const AttentionPart parts[] = {three, one, two};
      ASSERT_TRUE(merge_attention(parts, whole.outputs).ok());
      const HeldAs as{p.shape, dtype, 1};  // parts were rounded before they were merged
      expect_output(whole.output(), ref::forward(whole.problem), ref::magnitudes(whole.problem), as, name_of(dtype));
    }
  }
}

TEST(merge_attention, one_part_is_itself_and_none_is_refused) {
  const ref::Problem p = problem(5);
  const Part all(p, 0, 150, DType::f64);
  Bridge merged(p, DType::f64);
  const AttentionPart parts[] = {all};
  ASSERT_TRUE(merge_attention(parts, merged.outputs).ok());
  EXPECT_LE(far_apart(merged.output().out, all.bridge.output().out), 1e-15);
  EXPECT_LE(far_apart(merged.output().lse, all.bridge.output().lse), 1e-15);
  EXPECT_EQ(merge_attention({}, merged.outputs).message(), "merge_attention: no parts are given, wanted one at least");
  EXPECT_LE(far_apart(merged.output().out, all.bridge.output().out), 1e-15);  // nothing is written
}

TEST(merge_attention, a_part_that_saw_nothing_counts_for_nothing_even_if_it_is_no_number) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  // On the heap: the address sanitizer does not see a test's stack.
  const std::vector<float> nothing = {nan, nan};
  const std::vector<float> seen = {3, 4};
  const std::vector<float> unseen_lse = {-std::numeric_limits<float>::infinity()};
  const std::vector<float> seen_lse = {1000};
  std::vector<float> out(2);
  std::vector<float> lse(1);
  const AttentionPart parts[] = {{view(nothing.data(), {1, 1, 1, 2}), view(unseen_lse.data(), {1, 1, 1, 1})},
                                 {view(seen.data(), {1, 1, 1, 2}), view(seen_lse.data(), {1, 1, 1, 1})}};
  const AttentionOutputs outputs{view(out.data(), {1, 1, 1, 2}), view(lse.data(), {1, 1, 1, 1})};
  ASSERT_TRUE(merge_attention(parts, outputs).ok());
  EXPECT_EQ(out[0], 3);
  EXPECT_EQ(out[1], 4);
  EXPECT_EQ(lse[0], 1000);
  ASSERT_TRUE(merge_attention({parts, 1}, outputs).ok());
  EXPECT_EQ(out[0], 0);
  EXPECT_EQ(lse[0], -std::numeric_limits<float>::infinity());
}

TEST(merge_attention, a_result_may_take_the_place_of_a_part) {
  const ref::Problem p = problem(5);
  Part one(p, 0, 70, DType::f64);
  Part two(p, 70, 150, DType::f64);
  Bridge apart(p, DType::f64);
  const AttentionPart parts[] = {one, two};
  ASSERT_TRUE(merge_attention(parts, apart.outputs).ok());
  ASSERT_TRUE(merge_attention(parts, two.bridge.outputs).ok());
  EXPECT_EQ(two.bridge.output().out, apart.output().out);
  EXPECT_EQ(two.bridge.output().lse, apart.output().lse);
}

TEST(merge_attention, what_does_not_fit_is_said) {
  std::vector<double> out(24);
  std::vector<double> lse(12);
  const auto message = [&](const AttentionPart& part, const AttentionOutputs& outputs) {
    return merge_attention({&part, 1}, outputs).message();
  };
  const AttentionOutputs outputs{view(out.data(), {1, 2, 2, 3}), view(lse.data(), {1, 2, 2, 1})};
  const std::vector<double> other(24);
  const std::vector<float> narrow(24);
  EXPECT_EQ(message({view(other.data(), {1, 2, 2, 4}), view(other.data(), {1, 2, 2, 1})}, outputs),
            "merge_attention: parts[0].out has shape (1, 2, 2, 4), wanted (1, 2, 2, 3)");
  EXPECT_EQ(message({view(narrow.data(), {1, 2, 2, 3}), view(other.data(), {1, 2, 2, 1})}, outputs),
            "merge_attention: parts[0].out is f32, wanted f64");
  EXPECT_EQ(message({view(other.data(), {1, 2, 2, 3}), view(narrow.data(), {1, 2, 2, 1})}, outputs),
            "merge_attention: parts[0].lse is f32, wanted f64");
  EXPECT_EQ(message({view(other.data(), {1, 2, 2, 3}), {}}, outputs),
            "merge_attention: parts[0].lse has shape (0, 0, 0, 0), wanted (1, 2, 2, 1)");
  EXPECT_EQ(message({view(std::as_const(out).data() + 1, {1, 2, 2, 3}), view(other.data(), {1, 2, 2, 1})}, outputs),
            "merge_attention: out overlaps parts[0].out, wanted the same elements or none");
  EXPECT_EQ(message({view(other.data(), {1, 2, 2, 3}), view(std::as_const(out).data(), {1, 2, 2, 1})}, outputs),
            "merge_attention: out overlaps parts[0].lse, wanted the same elements or none");
  EXPECT_EQ(
      message({view(other.data(), {1, 2, 2, 3}), view(other.data() + 12, {1, 2, 2, 1})}, {outputs.out, view(out.data() + 2, {1, 2, 2, 1})}),
      "merge_attention: lse overlaps out, wanted memory apart");
  EXPECT_EQ(
      message({view(other.data(), {1, 2, 2, 3}), view(other.data() + 12, {1, 2, 2, 1})}, {view(out.data(), {1, 2, 2, 3}, {0, 1, 3, 1})}),
      "merge_attention: out has strides by which elements overlap, wanted each once");
}

}  // namespace
}  // namespace phasor::test
