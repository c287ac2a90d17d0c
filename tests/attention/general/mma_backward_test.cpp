// SPDX-License-Identifier: Apache-2.0
// The backward by mma.sync, its blocks run by the host, against the double reference: tables on every side by every rule of rows, shifts,
// biases by distance, masks, ragged batches, grouped heads, both widths and dtypes.
#include <gtest/gtest.h>

#include <vector>

#include "attention/general/hidden_keys.hpp"
#include "attention/general/machine.hpp"
#include "attention/general/mma_machine.hpp"
#include "attention/support/narrow_problems.hpp"
#include "cuda/attention/mma/call.hpp"

namespace phasor::test {
namespace {

/// How many backward passes were the emulated kernels'.
int taken = 0;

struct MmaMachine : AttentionMachine {
  static int compute_major() { return cuda::attention::mma::kComputeMajor; }
  Status backward(const cuda::attention::BackwardLayout& layout) const {
    if (!layout.by_mma_backward) return AttentionMachine::backward(layout);
    ++taken;
    run_mma_backward(layout.work);
    return {};
  }
};

/// While it lives, backward passes are laid out for tensor cores.
class MmaBackward : public testing::Test {
 protected:
  MmaBackward() { weights_are_rounded = true; }
  ~MmaBackward() override { weights_are_rounded = false; }

  static void expect_all(const std::vector<NarrowProblem>& problems, DType dtype) {
    for (const NarrowProblem& one : problems) {
      const int before = taken;
      expect_as_reference(one.problem, dtype, one.name);
      EXPECT_EQ(taken, before + 1) << one.name << " is not taken";
    }
  }
  NarrowParameters narrow_;
  ReplacedBackend backend_ = ReplacedBackend([](backend::Backend& backend) {
    forward_by<AttentionMachine>(backend);
    backward_by<MmaMachine>(backend);
  });
};

TEST_F(MmaBackward, every_mask_without_terms) { expect_all(masked_problems(kNarrow), DType::bf16); }
TEST_F(MmaBackward, tables_and_biases) { expect_all(term_problems(kNarrow), DType::bf16); }
TEST_F(MmaBackward, tables_and_biases_of_wide_heads) { expect_all(term_problems(kNarrowWide), DType::f16); }
TEST_F(MmaBackward, tables_over_many_tiles) { expect_all(long_table_problems(TablesBy::backward), DType::bf16); }
TEST_F(MmaBackward, many_terms_with_masks) { expect_all(mixed_problems(), DType::bf16); }
TEST_F(MmaBackward, soft_caps) { expect_all(capped_problems(kNarrow), DType::bf16); }
TEST_F(MmaBackward, soft_caps_of_wide_heads) { expect_all(capped_problems(kNarrowWide), DType::f16); }
TEST_F(MmaBackward, dropout) { expect_all(dropped_problems(kNarrow), DType::bf16); }
TEST_F(MmaBackward, dropout_of_wide_heads) { expect_all(dropped_problems(kNarrowWide), DType::f16); }
TEST_F(MmaBackward, tables_of_values) { expect_all(value_problems(kNarrow), DType::bf16); }
TEST_F(MmaBackward, tables_of_wide_values) { expect_all(value_problems(kNarrowWide), DType::f16); }
TEST_F(MmaBackward, tables_of_values_over_many_tiles) { expect_all(long_value_problems(), DType::f16); }

TEST_F(MmaBackward, features) { expect_all(feature_problems(kNarrow), DType::bf16); }
TEST_F(MmaBackward, features_of_wide_heads) { expect_all(feature_problems(kNarrowWide), DType::f16); }
TEST_F(MmaBackward, features_of_any_length) {
  expect_all(feature_lengths(), DType::bf16);
  expect_all(feature_lengths(), DType::f16);
}
TEST_F(MmaBackward, features_as_they_come) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) expect_all({random_feature_problem(seed)}, seed % 2 == 0 ? DType::f16 : DType::bf16);
}

/// Gradients that are not wanted change no other one, and are not written.
TEST_F(MmaBackward, features_whose_gradients_are_not_wanted) {
  for (const ref::Shape& shape : {kNarrow, kNarrowWide}) {
    const NarrowProblem one = feature_problems(shape).at(6);
    const auto gradients = [&](bool of_features, bool of_table, bool of_queries) {
      Bridge bridge(one.problem, DType::bf16);
      if (!of_features) bridge.gradients.terms.at(0).features = {};
      if (!of_table) bridge.gradients.terms.at(0).table = {};
      if (!of_queries) bridge.gradients.q = {};
      EXPECT_TRUE(bridge.forward().ok());
      const ref::Shape& s = bridge.problem.shape;
      const int before = taken;
      EXPECT_TRUE(bridge.backward(Numbers(3).values(s.batch * s.queries * s.heads * s.value_width)).ok());
      EXPECT_EQ(taken, before + 1);
      return bridge.reference_gradients();
    };
    const ref::Gradients all = gradients(true, true, true);
    const auto& of_all = std::get<ref::Inkling>(all.schemes.at(0));
    for (const int wanted : {0, 1, 2, 4}) {
      const ref::Gradients some = gradients((wanted & 1) != 0, (wanted & 2) != 0, (wanted & 4) != 0);
      const auto& of_some = std::get<ref::Inkling>(some.schemes.at(0));
      const auto expect = [](bool is_wanted, const ref::Values& is, const ref::Values& as) {
        EXPECT_EQ(is, is_wanted ? as : ref::Values(as.size(), 0.0));
      };
      expect((wanted & 1) != 0, of_some.features, of_all.features);
      expect((wanted & 2) != 0, of_some.table, of_all.table);
      expect((wanted & 4) != 0, some.q, all.q);
      EXPECT_TRUE(some.k == all.k && some.v == all.v);
    }
  }
}

TEST_F(MmaBackward, cope) { expect_all(cope_problems(kNarrow), DType::bf16); }
TEST_F(MmaBackward, cope_of_wide_heads) { expect_all(cope_problems(kNarrowWide), DType::f16); }
TEST_F(MmaBackward, cope_under_every_mask) { expect_all(masked_cope_problems(kNarrow), DType::bf16); }
TEST_F(MmaBackward, cope_of_any_length) {
  expect_all(cope_lengths(), DType::bf16);
  expect_all(cope_lengths(), DType::f16);
}
TEST_F(MmaBackward, cope_at_the_ends_of_its_table) {
  expect_all(cope_clips(), DType::bf16);
  expect_all(cope_clips(), DType::f16);
}
TEST_F(MmaBackward, cope_over_many_tiles) { expect_all(long_cope_problems(), DType::f16); }

/// Keys and values of padding, which may be anything.
TEST_F(MmaBackward, what_nobody_sees_takes_no_part) {
  ref::Problem p = mixed_problems().at(2).problem;
  hide_keys_of_nan(p, 40);
  expect_finite_gradients(p, DType::bf16);
  p = cope_problems(kNarrow).at(2).problem;
  hide_keys_of_nan(p, 40);
  const int before = taken;
  expect_finite_gradients(p, DType::bf16);
  EXPECT_EQ(taken, before + 1);
}

/// With sinks their log-sum-exp is finite.
TEST_F(MmaBackward, queries_that_see_nothing_take_no_part) {
  for (const auto& problems : {value_problems, term_problems, cope_problems}) {
    for (ref::Shape shape : {kNarrow, kNarrowWide}) {
      shape.keys = 40;
      for (const bool padded : {false, true}) {
        ref::Problem p = problems(shape_of_hidden_queries(shape, padded)).at(0).problem;
        hide_queries_of_nan(p, padded);
        const int before = taken;
        p.sinks = {};
        expect_finite_gradients(p, DType::bf16, kHiddenQueries);
        p.sinks = Numbers(9).values(shape.heads, -2, 4);
        for (const bool with_lse : {false, true}) expect_finite_gradients(p, DType::bf16, kHiddenQueries, with_lse);
        EXPECT_EQ(taken, before + 3);
      }
    }
  }
}

/// A log-sum-exp that is a sink alone may have any gradient: the sink has it, nobody else.
TEST_F(MmaBackward, gradients_of_a_sink_alone_reach_nobody_else) {
  const ref::Shape s = shape_of_hidden_queries(kNarrow, false);
  ref::Problem p = term_problems(s).at(0).problem;
  hide_queries_of_nan(p, false);
  p.sinks = Numbers(9).values(s.heads, -2, 4);
  ref::Values out_gradient = Numbers(3).values(s.batch * s.queries * s.heads * s.value_width);
  ref::Values lse_gradient = Numbers(4).values(s.batch * s.queries * s.heads);
  for (std::int64_t query = 0; query < kHiddenQueries; ++query) {
    make_nan(out_gradient, s.queries, query, s.heads * s.value_width);
    make_nan(lse_gradient, s.queries, query, 1);  // (B, H, Tq)
  }
  Bridge bridge(p, DType::bf16);
  ASSERT_TRUE(bridge.forward().ok());
  const int before = taken;
  ASSERT_TRUE(bridge.backward(out_gradient, lse_gradient).ok());
  EXPECT_EQ(taken, before + 1);
  const ref::Gradients is = bridge.reference_gradients();
  for (const ref::Values& values : {is.q, is.k, is.v}) {
    for (const double x : values) ASSERT_TRUE(std::isfinite(x));
  }
}

/// Features of such queries may be anything, too.
TEST_F(MmaBackward, features_of_queries_that_see_nothing_take_no_part) {
  constexpr std::int64_t kHidden = 9;
  for (const ref::Shape& shape : {kNarrow, kNarrowWide}) {
    ref::Shape s = shape;
    s.queries = s.keys + kHidden;
    ref::Problem p = feature_problems(s).at(2).problem;
    p.visibility.causal = true;
    auto& scheme = std::get<ref::Inkling>(p.schemes.at(0));
    for (std::int64_t query = 0; query < kHidden; ++query) {
      make_nan(p.q, s.queries, query, s.heads * s.width);
      make_nan(scheme.features, s.queries, query, s.heads * scheme.feature_width);
    }
    const int before = taken;
    expect_finite_gradients(p, DType::bf16, kHidden);
    EXPECT_EQ(taken, before + 1);
    hide_keys_of_nan(p, 40);
    expect_finite_gradients(p, DType::bf16, kHidden);
  }
}

/// A sequence has the same bits in a batch of one.
TEST_F(MmaBackward, cope_of_a_sequence_does_not_depend_on_others) {
  const ref::Problem p = cope_problems(kNarrow).at(3).problem;
  const ref::Values out_gradient = Numbers(3).values(p.shape.batch * p.shape.queries * p.shape.heads * p.shape.value_width);
  const auto gradients = [&](std::int64_t batch) {
    ref::Problem some = p;
    some.shape.batch = batch;
    const auto cut = [&](ref::Values& values) {
      values.resize(values.size() / static_cast<std::size_t>(p.shape.batch) * static_cast<std::size_t>(batch));
    };
    for (ref::Values* const x : {&some.q, &some.k, &some.v}) cut(*x);
    ref::Values of_out = out_gradient;
    cut(of_out);
    Bridge bridge(some, DType::bf16);
    EXPECT_TRUE(bridge.forward().ok());
    EXPECT_TRUE(bridge.backward(of_out).ok());
    return bridge.reference_gradients();
  };
  const ref::Gradients both = gradients(2);
  const ref::Gradients first = gradients(1);
  EXPECT_TRUE(std::equal(first.q.begin(), first.q.end(), both.q.begin()));
  EXPECT_TRUE(std::equal(first.k.begin(), first.k.end(), both.k.begin()));
  EXPECT_TRUE(std::equal(first.v.begin(), first.v.end(), both.v.begin()));
}

}  // namespace
}  // namespace phasor::test
