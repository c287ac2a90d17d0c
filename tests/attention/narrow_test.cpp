// SPDX-License-Identifier: Apache-2.0
// 16 bits with tables of 16 bits against the double reference: outputs and all gradients. gpu_attention runs these by tensor cores.
#include <gtest/gtest.h>

#include "attention/support/narrow_problems.hpp"

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
TEST(attention_narrow, tables_over_many_tiles) { expect_all(long_table_problems(), DType::f16); }
TEST(attention_narrow, many_terms_with_masks) { expect_all(mixed_problems(), DType::bf16); }
TEST(attention_narrow, soft_caps) { expect_all(capped_problems(kNarrow), DType::bf16); }
TEST(attention_narrow, soft_caps_of_wide_heads) { expect_all(capped_problems(kNarrowWide), DType::f16); }
TEST(attention_narrow, dropout) { expect_all(dropped_problems(kNarrow), DType::bf16); }
TEST(attention_narrow, dropout_of_wide_heads) { expect_all(dropped_problems(kNarrowWide), DType::f16); }
TEST(attention_narrow, tables_of_values) { expect_all(value_problems(kNarrow), DType::bf16); }
TEST(attention_narrow, tables_of_wide_values) { expect_all(value_problems(kNarrowWide), DType::f16); }
TEST(attention_narrow, tables_of_values_over_many_tiles) { expect_all(long_value_problems(), DType::bf16); }

}  // namespace
}  // namespace phasor::test
