// SPDX-License-Identifier: Apache-2.0
// Gradients of a bias given in full by the kernels of mma.sync, run by the host, against the double reference: shared by batch rows, by
// heads of one key head, or by nobody; under every mask, beside other terms, in ragged batches, however they lie.
#include <gtest/gtest.h>

#include <vector>

#include "attention/general/machine.hpp"
#include "attention/general/mma_machine.hpp"
#include "attention/support/narrow_problems.hpp"
#include "cuda/attention/mma/call.hpp"

namespace phasor::test {
namespace {

int taken = 0;

struct DenseMachine : AttentionMachine {
  static int compute_major() { return cuda::attention::mma::kComputeMajor; }
  Status backward(const cuda::attention::BackwardLayout& layout) const {
    if (!layout.by_mma_backward) return AttentionMachine::backward(layout);
    ++taken;
    run_mma_backward(layout.work);
    return {};
  }
};

struct SharedBy {
  bool batch_rows;
  bool heads;
};
ref::Dense dense(const ref::Shape& s, const SharedBy& by) {
  ref::Dense made{.extents = {by.batch_rows ? 1 : s.batch, by.heads ? 1 : s.heads, s.queries, s.keys}};
  made.bias = Numbers(8).values(made.extents[0] * made.extents[1] * s.queries * s.keys);
  return made;
}
ref::Problem problem_of(const ref::Shape& s, const SharedBy& by) {
  ref::Problem p = random_problem(s, 5);
  p.schemes = {dense(s, by)};
  return p;
}

/// While it lives, backward passes are laid out for tensor cores.
class MmaDense : public testing::Test {
 protected:
  MmaDense() { weights_are_rounded = true; }
  ~MmaDense() override { weights_are_rounded = false; }

  static void expect_reference(const ref::Problem& p, DType dtype, const std::string& name, int times = 1) {
    const int before = taken;
    expect_as_reference(p, dtype, name);
    EXPECT_EQ(taken, before + times) << name;
  }
  NarrowParameters narrow_;
  ReplacedBackend backend_ = ReplacedBackend([](backend::Backend& backend) {
    forward_by<AttentionMachine>(backend);
    backward_by<DenseMachine>(backend);
  });
};

TEST_F(MmaDense, has_the_gradients_of_the_reference) {
  for (const SharedBy by : {SharedBy{true, false}, SharedBy{false, false}, SharedBy{true, true}, SharedBy{false, true}}) {
    expect_reference(problem_of(kNarrow, by), DType::bf16, "narrow");  // one key head
  }
  expect_reference(problem_of(kNarrowWide, {true, false}), DType::f16, "wide");
  ref::Shape two = kNarrow;
  two.key_heads = 2;
  expect_reference(problem_of(two, {true, false}), DType::f16, "two key heads");
  expect_reference(problem_of(two, {true, true}), DType::bf16, "shared by key heads", 0);
}

TEST_F(MmaDense, has_them_under_every_mask) {
  for (const NamedMask& mask : every_mask(kNarrow)) {
    ref::Problem p = problem_of(kNarrow, {true, false});
    p.visibility = mask.visibility;
    expect_reference(p, DType::bf16, mask.name);
  }
}

TEST_F(MmaDense, has_them_of_any_length) {
  for (const auto& [queries, keys] : {std::pair{2, 1}, {2, 600}, {9, 63}, {64, 64}, {129, 65}}) {
    ref::Shape s = kNarrow;
    s.queries = queries;
    s.keys = keys;
    expect_reference(problem_of(s, {true, false}), DType::bf16, std::to_string(queries) + " and " + std::to_string(keys));
  }
}

TEST_F(MmaDense, has_them_beside_other_terms) {
  for (const NarrowProblem& one : {term_problems(kNarrow).at(0), term_problems(kNarrow).at(3), value_problems(kNarrow).at(0),
                                   feature_problems(kNarrow).at(0), mixed_problems().at(2), mixed_problems().back()}) {
    ref::Problem p = one.problem;
    p.schemes.emplace_back(dense(p.shape, {true, false}));
    p.schemes.insert(p.schemes.begin(), dense(p.shape, {p.shape.batch == 1, false}));
    expect_reference(p, DType::bf16, one.name);
  }
  ref::Problem p = dropped_problems(kNarrow).at(0).problem;
  p.schemes.emplace_back(dense(kNarrow, {true, false}));
  p.softcap = 3;
  p.sinks = Numbers(9).values(kNarrow.heads, -2, 4);
  expect_reference(p, DType::bf16, "dropout, a cap and sinks");
}

/// Added to what is there, element by element of any strides.
TEST_F(MmaDense, adds_them_however_they_lie) {
  const ref::Problem p = problem_of(kNarrow, {true, false});
  const ref::Values out_gradient = Numbers(3).values(p.shape.batch * p.shape.queries * p.shape.heads * p.shape.value_width);
  Bridge bridge(p, DType::bf16);
  ASSERT_TRUE(bridge.forward().ok());
  ASSERT_TRUE(bridge.backward(out_gradient).ok());
  const ref::Gradients wanted = bridge.reference_gradients();
  Bridge other(p, DType::bf16);
  TensorView& to = other.gradients.terms.at(0).table;
  const auto [batch, queries, heads, keys] = to.shape;
  Store store;
  Numbered& memory = store.hold(ref::Values(static_cast<std::size_t>(2 * queries * heads * keys), 4), DType::f32);
  to = memory.view({to.shape, {0, 2, 2 * queries, 2 * queries * heads}, 1});  // keys last, elements apart
  ASSERT_TRUE(other.forward().ok());
  const int before = taken;
  ASSERT_TRUE(other.backward(out_gradient).ok());
  EXPECT_EQ(taken, before + 1);
  const ref::Values is = memory.values();
  const ref::Values& as = std::get<ref::Dense>(wanted.schemes.at(0)).bias;
  for (std::int64_t n = 0; n < heads * queries * keys; ++n) {  // (1, H, Tq, Tk)
    const std::int64_t head = n / keys / queries;
    const std::int64_t at = 1 + 2 * (n / keys % queries) + 2 * queries * head + 2 * queries * heads * (n % keys);
    ASSERT_NEAR(is[static_cast<std::size_t>(at)], 4 + as[static_cast<std::size_t>(n)], 0x1p-20) << n;
    ASSERT_EQ(is[static_cast<std::size_t>(at - 1)], 4) << n;
  }
}

}  // namespace
}  // namespace phasor::test
