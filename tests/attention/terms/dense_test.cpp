// SPDX-License-Identifier: Apache-2.0
// A dense bias against the reference: every way to share it, any strides and dtypes, masks by -infinity, and gradients in place.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "attention/support/every_target.hpp"

namespace phasor::test {
namespace {

constexpr ref::Shape kShape{.batch = 2, .queries = 101, .keys = 70, .heads = 4, .key_heads = 2, .width = 5, .value_width = 3};

/// Axes (b, h, i, j) whole where a bit of `which` is set.
ref::Dense dense(const ref::Shape& s, int which) {
  Numbers random(static_cast<std::uint64_t>(which) + 1);
  ref::Dense made{.extents = {(which & 1) != 0 ? s.batch : 1, (which & 2) != 0 ? s.heads : 1, (which & 4) != 0 ? s.queries : 1,
                              (which & 8) != 0 ? s.keys : 1}};
  made.bias = random.values(made.extents[0] * made.extents[1] * made.extents[2] * made.extents[3]);
  return made;
}

TEST(attention_dense, every_way_to_share_axes) {
  for (int which = 0; which < 16; ++which) {
    ref::Problem p = random_problem(kShape, 3);
    p.visibility.causal = which % 3 == 0;
    p.schemes = {dense(kShape, which)};
    expect_on_every_target(p, "axes " + std::to_string(which));
  }
}

TEST(attention_dense, sequences_of_a_varlen_batch_share_axes_too) {
  for (const int which : {0, 4, 8, 12, 2, 14}) {
    ref::Shape s = kShape;
    s.batch = 1;
    ref::Problem p = random_problem(s, 4);
    p.visibility.query_starts = {0, 3, 3, 60, 101};
    p.visibility.key_starts = {0, 20, 31, 34, 70};
    p.schemes = {dense(s, which)};
    expect_on_every_target(p, "varlen, axes " + std::to_string(which));
  }
}

TEST(attention_dense, many_key_tiles_and_one_query) {
  for (const std::int64_t queries : {1, 130}) {
    ref::Problem p =
        random_problem({.batch = 1, .queries = queries, .keys = 700, .heads = 2, .key_heads = 1, .width = 5, .value_width = 3}, 9);
    for (const int which : {2, 15, 6}) {
      p.schemes = {dense(p.shape, which)};
      expect_on_every_target(p, "axes " + std::to_string(which));
    }
  }
}

TEST(attention_dense, the_order_of_tasks_does_not_matter) {
  for (int which = 0; which < 16; ++which) {
    ref::Problem p = random_problem(kShape, 3);
    p.schemes = {dense(kShape, which)};
    expect_same_bits_by_any_runner(p, "axes " + std::to_string(which));
  }
}

TEST(attention_dense, minus_infinity_hides_a_key) {
  ref::Problem p = random_problem(kShape, 5);
  ref::Dense bias = dense(kShape, 15);
  for (std::size_t n = 0; n < bias.bias.size(); n += 3) bias.bias[n] = -std::numeric_limits<double>::infinity();
  for (std::int64_t j = 0; j < kShape.keys; ++j) bias.bias[static_cast<std::size_t>(j)] = -std::numeric_limits<double>::infinity();
  p.schemes = {bias};
  expect_on_every_target(p, "minus infinity");
  Bridge bridge(p, DType::f32);
  ASSERT_TRUE(bridge.forward().ok());
  EXPECT_EQ(bridge.output().lse[0], -std::numeric_limits<double>::infinity());
  EXPECT_EQ(bridge.output().out[0], 0);
}

/// A bias of any dtype, keys slowest, and its gradient of the other float.
void expect_dtype(DType dtype) {
  ref::Problem p = random_problem(kShape, 6);
  ref::Dense bias = dense(kShape, 15);
  round_all(bias.bias, dtype);
  p.schemes = {bias};
  Bridge bridge(p, DType::f32);
  const Extents shape{kShape.batch, kShape.queries, kShape.heads, kShape.keys};
  const Extents strides{1, 3 * kShape.heads * kShape.batch, kShape.batch, 3 * kShape.heads * kShape.batch * kShape.queries};
  const std::int64_t count = strides[3] * kShape.keys;
  std::vector<double> memory(static_cast<std::size_t>(count));
  std::vector<double> gradient(static_cast<std::size_t>(count), 1);
  const auto& e = bias.extents;
  const auto each = [&](const auto& body) {
    for (std::size_t n = 0; n < bias.bias.size(); ++n) {
      const auto at = static_cast<std::int64_t>(n);
      const std::int64_t j = at % e[3];
      const std::int64_t i = at / e[3] % e[2];
      const std::int64_t h = at / e[3] / e[2] % e[1];
      body(n, at / e[3] / e[2] / e[1] * strides[0] + i * strides[1] + h * strides[2] + j * strides[3]);
    }
  };
  each([&](std::size_t n, std::int64_t at) { job::store_element(memory.data(), dtype, at, bias.bias[n]); });
  bridge.spec.terms = {DenseTerm{{memory.data(), dtype, shape, strides}}};
  bridge.gradients.terms[0].table = {gradient.data(), DType::f64, shape, strides};
  Wanted wanted(bridge.problem, DType::f32);
  ASSERT_TRUE(bridge.forward().ok());
  expect_near(bridge.output().out, wanted.output.out, DType::f32, name_of(dtype));
  ASSERT_TRUE(bridge.backward(wanted.out_gradient, wanted.lse_gradient).ok());
  ref::Values is(bias.bias.size());
  each([&](std::size_t n, std::int64_t at) { is[n] = gradient[static_cast<std::size_t>(at)] - 1; });
  expect_near(is, std::get<ref::Dense>(wanted.gradients.schemes[0]).bias, DType::f32, std::string("gradient, ") + name_of(dtype));
}
TEST(attention_dense, any_dtype_and_strides_and_gradients_are_added_to) {
  expect_dtype(DType::f32);
  expect_dtype(DType::f64);
  expect_dtype(DType::f16);
  expect_dtype(DType::bf16);
}

TEST(attention_dense, only_the_gradient_of_the_bias) {
  for (const int which : {15, 7}) {
    ref::Problem p = random_problem(kShape, 7);
    p.schemes = {dense(kShape, which)};
    Bridge bridge(p, DType::f64);
    Wanted wanted(bridge.problem, DType::f64);
    bridge.gradients.q = bridge.gradients.k = bridge.gradients.v = {};
    ASSERT_TRUE(bridge.forward().ok());
    ASSERT_TRUE(bridge.backward(wanted.out_gradient, wanted.lse_gradient).ok());
    ref::Gradients is = bridge.reference_gradients();
    expect_scheme_gradients(is, wanted.gradients, DType::f64, "bias alone");
  }
}

TEST(attention_dense, what_does_not_fit_is_an_error) {
  ref::Problem p = random_problem(kShape, 8);
  p.schemes = {dense(kShape, 15)};
  Bridge bridge(p, DType::f32);
  DenseTerm& term = std::get<DenseTerm>(bridge.spec.terms[0]);
  const DenseTerm good = term;
  term.bias.shape[1] = 100;
  EXPECT_EQ(failure_of(bridge), "attention: terms[0]: bias has 100 on its second axis, wanted 101 or 1");
  term = good;
  term.bias.data = nullptr;
  EXPECT_NE(failure_of(bridge), "no failure");
  term = good;
  bridge.gradients.terms[0].table.strides[1] = 0;
  ASSERT_TRUE(bridge.forward().ok());
  Wanted wanted(bridge.problem, DType::f32);
  EXPECT_FALSE(bridge.backward(wanted.out_gradient).ok());
  bridge.gradients.terms[0].table = bridge.outputs.out;
  EXPECT_FALSE(bridge.backward(wanted.out_gradient).ok());
}

}  // namespace
}  // namespace phasor::test
