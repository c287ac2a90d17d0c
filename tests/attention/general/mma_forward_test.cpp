// SPDX-License-Identifier: Apache-2.0
// The forward by mma.sync, its blocks run by the host, against the double reference: masks, tables on every side, biases, ragged batches,
// grouped heads, both widths and dtypes, parts of keys.
#include <gtest/gtest.h>

#include <vector>

#include "attention/general/hidden_keys.hpp"
#include "attention/general/machine.hpp"
#include "attention/general/mma_machine.hpp"
#include "attention/support/narrow_problems.hpp"
#include "cuda/attention/mma/call.hpp"

namespace phasor::test {
namespace {

/// How many calls were the emulated kernels', how many of those had their keys in parts, and how many tables beside scores in registers.
int taken = 0;
int in_parts = 0;
int tabled = 0;

struct MmaMachine : AttentionMachine {
  static int compute_major() { return cuda::attention::mma::kComputeMajor; }
  Status forward(const cuda::attention::Layout& layout) const {
    if (!layout.by_mma) return AttentionMachine::forward(layout);
    ++taken;
    in_parts += layout.work.partial.splits > 1 ? 1 : 0;
    tabled += cuda::attention::mma::cut_of(layout.work).scores == cuda::attention::mma::ScoresIn::tabled ? 1 : 0;
    run_mma_forward(layout.work);
    return {};
  }
};

/// While it lives, calls are laid out for tensor cores.
class MmaForward : public testing::Test {
 protected:
  MmaForward() { weights_are_rounded = true; }
  ~MmaForward() override { weights_are_rounded = false; }

  static void expect_all(const std::vector<NarrowProblem>& problems, DType dtype) {
    for (const NarrowProblem& one : problems) {
      const int before = taken;
      expect_forward(one.problem, dtype, one.name);
      EXPECT_EQ(taken, before + 1) << one.name << " is not taken";
    }
  }
  NarrowParameters narrow_;
  ReplacedBackend backend_ = ReplacedBackend([](backend::Backend& backend) { forward_by<MmaMachine>(backend); });
};

TEST_F(MmaForward, every_mask_without_terms) { expect_all(masked_problems(kNarrow), DType::bf16); }
TEST_F(MmaForward, tables_and_biases) { expect_all(term_problems(kNarrow), DType::bf16); }
TEST_F(MmaForward, tables_and_biases_of_wide_heads) { expect_all(term_problems(kNarrowWide), DType::f16); }
TEST_F(MmaForward, many_terms_with_masks) { expect_all(mixed_problems(), DType::bf16); }
TEST_F(MmaForward, tables_over_many_tiles) {
  in_parts = tabled = 0;
  const std::vector<NarrowProblem> problems = long_table_problems(TablesBy::forward);
  expect_all(problems, DType::bf16);
  EXPECT_EQ(tabled, problems.size());
  EXPECT_GT(in_parts, 0);
}
TEST_F(MmaForward, tables_of_values) { expect_all(value_problems(kNarrow), DType::bf16); }
TEST_F(MmaForward, tables_of_wide_values) { expect_all(value_problems(kNarrowWide), DType::f16); }
TEST_F(MmaForward, tables_of_values_over_many_tiles) {
  in_parts = 0;
  expect_all(long_value_problems(), DType::f16);
  EXPECT_GT(in_parts, 0);
}

TEST_F(MmaForward, cope) { expect_all(cope_problems(kNarrow), DType::bf16); }
TEST_F(MmaForward, cope_of_wide_heads) { expect_all(cope_problems(kNarrowWide), DType::f16); }
TEST_F(MmaForward, cope_under_every_mask) { expect_all(masked_cope_problems(kNarrow), DType::bf16); }
TEST_F(MmaForward, cope_of_any_length) {
  expect_all(cope_lengths(), DType::bf16);
  expect_all(cope_lengths(), DType::f16);
}
TEST_F(MmaForward, cope_at_the_ends_of_its_table) {
  expect_all(cope_clips(), DType::bf16);
  expect_all(cope_clips(), DType::f16);
}
TEST_F(MmaForward, cope_over_many_tiles) { expect_all(long_cope_problems(), DType::f16); }

/// Keys and values of padding, which may be anything.
TEST_F(MmaForward, what_nobody_sees_takes_no_part) {
  const auto expect_finite = [](ref::Problem p) {
    const int before = taken;
    hide_keys_of_nan(p, 40);
    Bridge bridge(p, DType::bf16);
    ASSERT_TRUE(bridge.forward().ok());
    for (const double x : bridge.output().out) ASSERT_TRUE(std::isfinite(x));
    EXPECT_EQ(taken, before + 1);
  };
  for (const auto& problems : {value_problems(kNarrow), mixed_problems(), long_table_problems(TablesBy::forward)}) {
    int padded = 0;
    for (const NarrowProblem& one : problems) {
      if (one.name != "padding") continue;
      expect_finite(one.problem);
      ++padded;
    }
    EXPECT_GT(padded, 0);
  }
  expect_finite(term_problems(kNarrow).at(2).problem);  // Transformer-XL
  expect_finite(cope_problems(kNarrow).at(2).problem);
}

TEST_F(MmaForward, cope_with_a_cap_and_more_channels) {
  const ref::Shape wide{.batch = 1, .queries = 40, .keys = 70, .heads = 1, .key_heads = 1, .width = 200, .value_width = 16};
  std::vector<NarrowProblem> problems = cope_problems(wide);
  for (NarrowProblem& one : problems) one.problem.softcap = 5;
  expect_all(problems, DType::bf16);
}

}  // namespace
}  // namespace phasor::test
