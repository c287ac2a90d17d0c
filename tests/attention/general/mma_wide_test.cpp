// SPDX-License-Identifier: Apache-2.0
// 16-bit calls whose outputs and gradients are float32, as parts are that are merged later: by the kernels of mma.sync, run by the host.
// They are what is rounded to 16 bits where those are wanted, however they lie, and gradients from them hold against the double reference.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "attention/general/hidden_keys.hpp"
#include "attention/general/machine.hpp"
#include "attention/general/mma_machine.hpp"
#include "attention/support/narrow_problems.hpp"
#include "cuda/attention/mma/call.hpp"

namespace phasor::test {
namespace {

int forwards_taken = 0;
int backwards_taken = 0;
int in_parts = 0;

struct WideMachine : AttentionMachine {
  static int compute_major() { return cuda::attention::mma::kComputeMajor; }
  Status forward(const cuda::attention::Layout& layout) const {
    if (!layout.by_mma) return AttentionMachine::forward(layout);
    ++forwards_taken;
    in_parts += layout.work.partial.splits > 1 ? 1 : 0;
    run_mma_forward(layout.work);
    return {};
  }
  Status backward(const cuda::attention::BackwardLayout& layout) const {
    if (!layout.by_mma_backward) return AttentionMachine::backward(layout);
    ++backwards_taken;
    run_mma_backward(layout.work);
    return {};
  }
};

/// How results lie: rows side by side; heads before tokens; every row at an odd number of floats.
enum class Lies : std::uint8_t { together, heads_first, unaligned };
constexpr Lies kEvery[] = {Lies::together, Lies::heads_first, Lies::unaligned};
Seen lying(const Extents& s, Lies how) {
  switch (how) {
    case Lies::together:
      return as_is(s);
    case Lies::heads_first:
      return {s, {s[1] * s[2] * s[3], s[3], s[1] * s[3], 1}};
    case Lies::unaligned:
      return {s, {s[1] * s[2] * (s[3] + 1), s[2] * (s[3] + 1), s[3] + 1, 1}, 1};
  }
  return as_is(s);
}
template <class Body>
void each_element(const TensorView& v, const Body& body) {
  for (std::int64_t n = 0; n < v.shape[0] * v.shape[1] * v.shape[2] * v.shape[3]; ++n) {
    const std::int64_t row = n / v.shape[3];
    const std::int64_t token = row / v.shape[2];
    body(static_cast<std::size_t>(n), token / v.shape[1] * v.strides[0] + token % v.shape[1] * v.strides[1] +
                                          row % v.shape[2] * v.strides[2] + n % v.shape[3] * v.strides[3]);
  }
}
ref::Values values_of(const TensorView& v) {
  ref::Values values(static_cast<std::size_t>(v.shape[0] * v.shape[1] * v.shape[2] * v.shape[3]));
  each_element(v, [&](std::size_t n, std::int64_t at) { values[n] = job::load_element(v.data, v.dtype, at); });
  return values;
}

/// What a backward gets of the forward, and in which dtypes.
struct Given {
  const ref::Values& out;
  const ref::Values& out_gradient;
  const ref::Values& lse_gradient;  // (B, H, Tq)
  DType dtype;
};

/// A call of 16 bits with its results in another dtype.
struct Results {
  Bridge bridge;
  Store store;
  TensorView q, k, v;

  Results(const ref::Problem& p, DType dtype, DType of_results, Lies how) : bridge(p, dtype) {
    bridge.outputs.out = made(bridge.outputs.out, of_results, how);
    bridge.gradients.q = q = made(bridge.gradients.q, of_results, how);
    bridge.gradients.k = k = made(bridge.gradients.k, of_results, how);
    bridge.gradients.v = v = made(bridge.gradients.v, of_results, how);
  }
  TensorView made(const TensorView& like, DType dtype, Lies how) {
    const Extents& s = like.shape;
    return store.make(s[0] * s[1] * s[2] * (s[3] + 1) + 1, dtype).view(lying(s, how));
  }
  ConstTensorView held(const ref::Values& values, DType dtype, Lies how) {
    const TensorView view = made(bridge.outputs.out, dtype, how);
    each_element(view, [&](std::size_t n, std::int64_t at) { job::store_element(view.data, dtype, at, values[n]); });
    return view;
  }
  Status backward(const Given& given) {
    AttentionSaved saved{held(given.out, given.dtype, Lies::heads_first), bridge.outputs.lse,
                         held(given.out_gradient, given.dtype, Lies::heads_first)};
    const ref::Shape& s = bridge.problem.shape;
    if (!given.lse_gradient.empty()) {
      const Extents strides = {s.heads * s.queries, 1, s.queries, 1};
      saved.lse_gradient = store.hold(given.lse_gradient, DType::f32).view({{s.batch, s.queries, s.heads, 1}, strides});
    }
    const Result<std::int64_t> bytes = attention_backward_workspace(bridge.inputs, bridge.spec, bridge.gradients);
    if (!bytes) return bytes.status();
    std::vector<std::byte> memory(static_cast<std::size_t>(*bytes), std::byte{0xff});
    return attention_backward(bridge.inputs, bridge.spec, saved, bridge.gradients, {memory});
  }
  /// Of q, k and v from here, of all else from the bridge.
  ref::Gradients gradients() {
    ref::Gradients all = bridge.reference_gradients();
    all.q = values_of(q);
    all.k = values_of(k);
    all.v = values_of(v);
    return all;
  }
};

/// Numbers that are those of 16 bits once they are rounded, and were not rounded before.
void expect_unrounded(const ref::Values& wide, const ref::Values& narrow, DType dtype, const std::string& name) {
  ASSERT_EQ(wide.size(), narrow.size()) << name;
  std::size_t other = 0;
  std::size_t none = 0;
  for (std::size_t n = 0; n < wide.size(); ++n) {
    ASSERT_EQ(rounded(wide[n], dtype), narrow[n]) << name << ": number " << n << " is " << wide[n];
    other += wide[n] != narrow[n] ? 1 : 0;
    none += wide[n] == 0 ? 1 : 0;
  }
  if (none < wide.size()) {
    EXPECT_GT(4 * other, wide.size() - none) << name << " was rounded";
  }
}

struct Gradient {
  ref::Values out;
  ref::Values lse;
};
Gradient random_gradient(const ref::Shape& s, DType rounded_to) {
  Numbers random(77);
  Gradient g = {random.values(s.batch * s.queries * s.heads * s.value_width), random.values(s.batch * s.queries * s.heads)};
  round_all(g.out, rounded_to);
  round_all(g.lse, DType::f32);
  return g;
}

/// While it lives, calls are laid out for tensor cores.
class MmaWide : public testing::Test {
 protected:
  MmaWide() { weights_are_rounded = true; }
  ~MmaWide() override { weights_are_rounded = false; }

  static void expect_outputs(const NarrowProblem& one, DType dtype, Lies how) {
    const std::string name = one.name + ", lying " + std::to_string(static_cast<int>(how));
    const int before = forwards_taken;
    Results narrow(one.problem, dtype, dtype, Lies::together);
    Results wide(one.problem, dtype, DType::f32, how);
    ASSERT_TRUE(narrow.bridge.forward().ok());
    ASSERT_TRUE(wide.bridge.forward().ok());
    EXPECT_EQ(forwards_taken, before + 2) << name << " is not taken";
    const ref::Output is = wide.bridge.output();
    expect_unrounded(is.out, narrow.bridge.output().out, dtype, name);
    EXPECT_EQ(is.lse, narrow.bridge.output().lse) << name;
    expect_output(is, ref::forward(wide.bridge.problem), ref::magnitudes(wide.bridge.problem), {one.problem.shape, dtype}, name);
  }
  static void expect_outputs(const std::vector<NarrowProblem>& problems, DType dtype) {
    std::size_t n = 0;
    for (const NarrowProblem& one : problems) expect_outputs(one, dtype, kEvery[n++ % 3]);
  }

  /// Gradients in float32, by outputs and their gradients of 16 bits, and by the same numbers in float32: those of 16 bits, unrounded.
  static void expect_same_gradients(const NarrowProblem& one, DType dtype, Lies how) {
    const Gradient g = random_gradient(one.problem.shape, dtype);
    Results narrow(one.problem, dtype, dtype, Lies::together);
    ASSERT_TRUE(narrow.bridge.forward().ok());
    const ref::Values out = narrow.bridge.output().out;
    const int before = backwards_taken;
    ASSERT_TRUE(narrow.backward({out, g.out, g.lse, dtype}).ok());
    const ref::Gradients wanted = narrow.gradients();
    int expected = before + 1;
    for (const DType given : {dtype, DType::f32}) {
      if (given == DType::f32 && dtype == DType::f16) continue;  // those go to the general kernels
      Results wide(one.problem, dtype, DType::f32, how);
      ASSERT_TRUE(wide.bridge.forward().ok());
      ASSERT_TRUE(wide.backward({out, g.out, g.lse, given}).ok());
      EXPECT_EQ(backwards_taken, ++expected) << one.name << " is not taken";
      ref::Gradients is = wide.gradients();
      expect_unrounded(is.q, wanted.q, dtype, one.name + ", q");
      expect_unrounded(is.k, wanted.k, dtype, one.name + ", k");
      expect_unrounded(is.v, wanted.v, dtype, one.name + ", v");
      EXPECT_EQ(is.sinks, wanted.sinks) << one.name;
      for (std::size_t n = 0; n < is.schemes.size(); ++n) {
        ref::Gradients same = wanted;
        const ref::Parameters own = parameters_of(is.schemes[n]);
        const ref::Parameters theirs = parameters_of(same.schemes[n]);
        for (std::size_t p = 0; p < own.size(); ++p) {
          EXPECT_TRUE(std::equal(own[p].values.begin(), own[p].values.end(), theirs[p].values.begin())) << one.name << own[p].name;
        }
      }
    }
  }
  /// Every other one: they differ in what is the same for every dtype of results.
  static void expect_same_gradients(const std::vector<NarrowProblem>& problems, DType dtype) {
    for (std::size_t n = 0; n < problems.size(); n += 2) expect_same_gradients(problems[n], dtype, kEvery[n / 2 % 3]);
  }

  /// Everything in float32 that may be, against the reference; and gradients of outputs count as they are when they are rounded.
  static void expect_as_wide_reference(const NarrowProblem& one) {
    Results wide(one.problem, DType::bf16, DType::f32, Lies::together);
    Wanted wanted(wide.bridge.problem, DType::f32);
    const HeldAs as = held_as(wide.bridge.problem, DType::bf16);
    const int before = backwards_taken;
    ASSERT_TRUE(wide.bridge.forward().ok());
    expect_output(wide.bridge.output(), wanted.output, wanted.magnitudes, as, one.name);
    const ref::Values out = wide.bridge.output().out;
    ASSERT_TRUE(wide.backward({out, wanted.out_gradient, wanted.lse_gradient, DType::f32}).ok());
    EXPECT_EQ(backwards_taken, before + 1) << one.name << " is not taken";
    ref::Gradients is = wide.gradients();
    expect_gradients(is, wanted, as, one.name);
    ref::Values rounded_gradient = wanted.out_gradient;
    round_all(rounded_gradient, DType::bf16);
    ASSERT_NE(rounded_gradient, wanted.out_gradient);
    ASSERT_TRUE(wide.backward({out, rounded_gradient, wanted.lse_gradient, DType::f32}).ok());
    const ref::Gradients same = wide.gradients();
    EXPECT_TRUE(same.q == is.q && same.k == is.k && same.v == is.v) << one.name;
  }
  static void expect_as_wide_reference(const std::vector<NarrowProblem>& problems) {
    for (const NarrowProblem& one : problems) expect_as_wide_reference(one);
  }

  NarrowParameters narrow_;
  ReplacedBackend backend_ = ReplacedBackend([](backend::Backend& backend) {
    forward_by<WideMachine>(backend);
    backward_by<WideMachine>(backend);
  });
};

TEST_F(MmaWide, outputs_under_every_mask) { expect_outputs(masked_problems(kNarrow), DType::bf16); }
TEST_F(MmaWide, outputs_with_terms) { expect_outputs(term_problems(kNarrow), DType::f16); }
TEST_F(MmaWide, outputs_of_wide_heads) { expect_outputs(masked_problems(kNarrowWide), DType::f16); }
TEST_F(MmaWide, outputs_with_many_terms) { expect_outputs(mixed_problems(), DType::bf16); }
TEST_F(MmaWide, outputs_with_tables_of_values) { expect_outputs(value_problems(kNarrow), DType::bf16); }
TEST_F(MmaWide, outputs_with_cope) { expect_outputs(cope_problems(kNarrow), DType::bf16); }
TEST_F(MmaWide, outputs_of_any_length_however_they_lie) {
  for (const Lies how : kEvery) {
    for (const auto& [queries, keys] : {std::pair{1, 600}, {9, 63}, {129, 129}}) {
      ref::Shape s = kNarrow;
      s.queries = queries;
      s.keys = keys;
      for (const NarrowProblem& one : {masked_problems(s).at(1), dropped_problems(s).at(0)}) expect_outputs(one, DType::bf16, how);
    }
  }
  EXPECT_GT(in_parts, 0);
}

TEST_F(MmaWide, gradients_under_every_mask) { expect_same_gradients(masked_problems(kNarrow), DType::bf16); }
TEST_F(MmaWide, gradients_with_terms) { expect_same_gradients(term_problems(kNarrow), DType::bf16); }
TEST_F(MmaWide, gradients_of_wide_heads) { expect_same_gradients(term_problems(kNarrowWide), DType::f16); }
TEST_F(MmaWide, gradients_with_tables_of_values) { expect_same_gradients(value_problems(kNarrow), DType::bf16); }
TEST_F(MmaWide, gradients_with_features) { expect_same_gradients(feature_problems(kNarrow), DType::bf16); }
TEST_F(MmaWide, gradients_with_cope) { expect_same_gradients(cope_problems(kNarrow), DType::bf16); }

TEST_F(MmaWide, all_of_it_under_every_mask) { expect_as_wide_reference(masked_problems(kNarrow)); }
TEST_F(MmaWide, all_of_it_with_terms) { expect_as_wide_reference(term_problems(kNarrow)); }
TEST_F(MmaWide, all_of_it_of_wide_heads) { expect_as_wide_reference(term_problems(kNarrowWide)); }
TEST_F(MmaWide, all_of_it_with_many_terms) { expect_as_wide_reference(mixed_problems()); }
TEST_F(MmaWide, all_of_it_with_caps) { expect_as_wide_reference(capped_problems(kNarrow)); }
TEST_F(MmaWide, all_of_it_with_dropout) { expect_as_wide_reference(dropped_problems(kNarrow)); }
TEST_F(MmaWide, all_of_it_with_tables_of_values) { expect_as_wide_reference(value_problems(kNarrow)); }
TEST_F(MmaWide, all_of_it_with_cope) { expect_as_wide_reference(cope_problems(kNarrowWide)); }

/// With sinks their log-sum-exp is finite.
TEST_F(MmaWide, queries_that_see_nothing_take_no_part) {
  for (const auto& problems : {value_problems, term_problems, cope_problems}) {
    for (ref::Shape shape : {kNarrow, kNarrowWide}) {
      shape.keys = 40;
      ref::Problem p = problems(shape_of_hidden_queries(shape, false)).at(0).problem;
      hide_queries_of_nan(p, false);
      for (const bool with_sinks : {false, true}) {
        p.sinks = with_sinks ? Numbers(9).values(shape.heads, -2, 4) : ref::Values{};
        Results wide(p, DType::bf16, DType::f32, Lies::together);
        const ref::Shape& s = p.shape;
        Gradient g = random_gradient(s, DType::f32);
        for (std::int64_t query = 0; query < kHiddenQueries; ++query) make_nan(g.out, s.queries, query, s.heads * s.value_width);
        ASSERT_TRUE(wide.bridge.forward().ok());
        const ref::Values out = wide.bridge.output().out;
        for (std::int64_t c = 0; c < kHiddenQueries * s.heads * s.value_width; ++c) ASSERT_EQ(out[static_cast<std::size_t>(c)], 0);
        const int before = backwards_taken;
        ASSERT_TRUE(wide.backward({out, g.out, g.lse, DType::f32}).ok());
        EXPECT_EQ(backwards_taken, before + 1);
        const ref::Gradients is = wide.gradients();
        for (const ref::Values& values : {is.q, is.k, is.v, is.sinks}) {
          for (const double x : values) ASSERT_TRUE(std::isfinite(x));
        }
      }
    }
  }
}

}  // namespace
}  // namespace phasor::test
