// SPDX-License-Identifier: Apache-2.0
// CoPE in 16 bits, its table too, against the reference: what tensor cores of a GPU take, where these tests are run by its kernels.
#include <gtest/gtest.h>

#include "attention/support/narrow_problems.hpp"

namespace phasor::test {
namespace {

class NarrowCope : public testing::Test {
 protected:
  static void expect_all(const std::vector<NarrowProblem>& problems, DType dtype) {
    for (const NarrowProblem& one : problems) expect_as_reference(one.problem, dtype, one.name);
  }
  NarrowParameters narrow_;
};

TEST_F(NarrowCope, tables_of_any_rows) { expect_all(cope_problems(kNarrow), DType::bf16); }
TEST_F(NarrowCope, wide_heads) { expect_all(cope_problems(kNarrowWide), DType::f16); }
TEST_F(NarrowCope, every_mask) { expect_all(masked_cope_problems(kNarrow), DType::bf16); }
TEST_F(NarrowCope, any_length) { expect_all(cope_lengths(), DType::bf16); }
TEST_F(NarrowCope, ends_of_the_table) { expect_all(cope_clips(), DType::f16); }
TEST_F(NarrowCope, many_tiles) { expect_all(long_cope_problems(), DType::f16); }

}  // namespace
}  // namespace phasor::test
