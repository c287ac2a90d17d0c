// SPDX-License-Identifier: Apache-2.0
// 16 bits with tables of 16 bits against the double reference: outputs and all gradients. gpu_attention runs these by tensor cores.
#include <gtest/gtest.h>

#include <algorithm>

#include "attention/support/narrow_problems.hpp"
#include "attention/support/rotated_problems.hpp"

namespace phasor::test {
namespace {

void expect_all(const std::vector<NarrowProblem>& problems, DType dtype) {
  const NarrowParameters narrow;
  for (const NarrowProblem& one : problems) expect_as_reference(one.problem, dtype, one.name);
}

TEST(attention_narrow, every_mask_without_terms) { expect_all(masked_problems(kNarrow), DType::bf16); }
TEST(attention_narrow, every_mask_of_wide_heads) { expect_all(masked_problems(kNarrowWide), DType::f16); }
TEST(attention_narrow, tables_and_biases) { expect_all(term_problems(kNarrow), DType::bf16); }
TEST(attention_narrow, tables_and_biases_of_wide_heads) { expect_all(term_problems(kNarrowWide), DType::f16); }
TEST(attention_narrow, tables_over_many_tiles) { expect_all(long_table_problems(TablesBy::backward), DType::f16); }
TEST(attention_narrow, many_terms_with_masks) { expect_all(mixed_problems(), DType::bf16); }
TEST(attention_narrow, soft_caps) { expect_all(capped_problems(kNarrow), DType::bf16); }
TEST(attention_narrow, soft_caps_of_wide_heads) { expect_all(capped_problems(kNarrowWide), DType::f16); }
TEST(attention_narrow, dropout) { expect_all(dropped_problems(kNarrow), DType::bf16); }
TEST(attention_narrow, dropout_of_wide_heads) { expect_all(dropped_problems(kNarrowWide), DType::f16); }
TEST(attention_narrow, tables_of_values) { expect_all(value_problems(kNarrow), DType::bf16); }
TEST(attention_narrow, tables_of_wide_values) { expect_all(value_problems(kNarrowWide), DType::f16); }
TEST(attention_narrow, tables_of_values_over_many_tiles) { expect_all(long_value_problems(), DType::bf16); }

/// Outputs alone: the kernels that take all of these are the forward's, and gradients take the reference four times as long.
TEST(attention_narrow, outputs_of_tables_over_many_tiles) {
  const NarrowParameters narrow;
  for (const NarrowProblem& one : long_table_problems(TablesBy::forward)) expect_forward(one.problem, DType::bf16, one.name);
}

TEST(attention_narrow, features) { expect_all(feature_problems(kNarrow), DType::bf16); }
TEST(attention_narrow, features_of_wide_heads) { expect_all(feature_problems(kNarrowWide), DType::f16); }
TEST(attention_narrow, features_of_any_length) {
  expect_all(feature_lengths(), DType::bf16);
  expect_all(feature_lengths(), DType::f16);
}
TEST(attention_narrow, features_as_they_come) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) expect_all({random_feature_problem(seed)}, seed % 2 == 0 ? DType::f16 : DType::bf16);
}

TEST(attention_narrow, rotated) { expect_all(rotated_problems(kNarrow), DType::bf16); }
TEST(attention_narrow, rotated_of_wide_heads) { expect_all(rotated_problems(kNarrowWide), DType::f16); }
TEST(attention_narrow, rotated_of_any_length) { expect_all(rotated_lengths(), DType::bf16); }
TEST(attention_narrow, rotated_beside_tables) { expect_all(rotated_beside_tables(kNarrow), DType::f16); }

/// Sums that go to memory from many tiles are added up in one order.
TEST(attention_narrow, gradients_have_the_same_bits_again) {
  const NarrowParameters narrow;
  std::vector<NarrowProblem> problems = long_table_problems(TablesBy::backward);
  problems.push_back(feature_lengths().back());
  for (const NarrowProblem& one : problems) {
    const ref::Shape& s = one.problem.shape;
    const ref::Values out_gradient = Numbers(3).values(s.batch * s.queries * s.heads * s.value_width);
    const auto gradients = [&] {
      Bridge bridge(one.problem, DType::bf16);
      EXPECT_TRUE(bridge.forward().ok());
      EXPECT_TRUE(bridge.backward(out_gradient).ok());
      return bridge.reference_gradients();
    };
    ref::Gradients first = gradients();
    ref::Gradients again = gradients();
    EXPECT_TRUE(first.q == again.q && first.k == again.k && first.v == again.v) << one.name;
    ASSERT_EQ(first.schemes.size(), again.schemes.size());
    for (std::size_t n = 0; n < first.schemes.size(); ++n) {
      const auto of_first = parameters_of(first.schemes[n]);
      const auto of_again = parameters_of(again.schemes[n]);
      for (std::size_t m = 0; m < of_first.size(); ++m) {
        EXPECT_TRUE(std::equal(of_first[m].values.begin(), of_first[m].values.end(), of_again[m].values.begin())) << one.name;
      }
    }
  }
}

}  // namespace
}  // namespace phasor::test
