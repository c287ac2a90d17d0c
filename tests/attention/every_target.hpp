// SPDX-License-Identifier: Apache-2.0
// Holding attention against the reference on every target: forward and all gradients of a problem.
#pragma once

#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "attention/table_problems.hpp"
#include "phasor/targets.hpp"

namespace phasor::test {

/// What the reference gives for a problem as a bridge holds it.
struct Wanted {
  ref::Values out_gradient;
  ref::Values lse_gradient;
  ref::Output output;
  ref::Gradients gradients;

  Wanted(const ref::Problem& p, DType dtype) {
    Numbers random(77);
    out_gradient = random.values(p.shape.batch * p.shape.queries * p.shape.heads * p.shape.value_width);
    lse_gradient = random.values(p.shape.batch * p.shape.queries * p.shape.heads);
    round_all(out_gradient, dtype);
    round_all(lse_gradient, dtype);
    output = ref::forward(p);
    gradients = ref::backward(p, out_gradient, lse_gradient);
  }
};

inline void expect_wanted(Bridge& bridge, Wanted& wanted, DType dtype, const std::string& name) {
  const Status forward = bridge.forward();
  ASSERT_TRUE(forward.ok()) << name << ": " << forward.message();
  expect_near(bridge.output().out, wanted.output.out, dtype, name + ", out");
  expect_near(bridge.output().lse, wanted.output.lse, dtype, name + ", lse");
  const Status backward = bridge.backward(wanted.out_gradient, wanted.lse_gradient);
  ASSERT_TRUE(backward.ok()) << name << ": " << backward.message();
  ref::Gradients is = bridge.reference_gradients();
  expect_near(is.q, wanted.gradients.q, dtype, name + ", dq");
  expect_near(is.k, wanted.gradients.k, dtype, name + ", dk");
  expect_near(is.v, wanted.gradients.v, dtype, name + ", dv");
  expect_scheme_gradients(is, wanted.gradients, dtype, name);
}

/// float64 and float32, on every target.
inline void expect_on_every_target(const ref::Problem& problem, const std::string& name) {
  for (const DType dtype : {DType::f64, DType::f32}) {
    std::optional<Wanted> wanted;
    for (const std::string_view target : targets()) {
      ASSERT_TRUE(force_target(target).ok());
      Bridge bridge(problem, dtype);
      if (!wanted) wanted.emplace(bridge.problem, dtype);
      expect_wanted(bridge, *wanted, dtype, name + ", " + name_of(dtype) + ", " + std::string(target));
    }
  }
  ASSERT_TRUE(force_target("").ok());
}

/// Tasks from the last to the first.
inline Runner backwards_runner() {
  return {.run = [](void*, std::int64_t tasks, void (*task)(void*, std::int64_t), void* context) {
    for (std::int64_t i = tasks; i-- > 0;) task(context, i);
  }};
}

/// The same bits whatever the runner: outputs and all gradients.
inline void expect_same_bits_by_any_runner(const ref::Problem& problem, const std::string& name) {
  Bridge one(problem, DType::f32);
  Bridge other(problem, DType::f32);
  other.spec.runner = backwards_runner();
  Numbers random(3);
  const ref::Values out_gradient =
      random.values(problem.shape.batch * problem.shape.queries * problem.shape.heads * problem.shape.value_width);
  for (Bridge* bridge : {&one, &other}) {
    ASSERT_TRUE(bridge->forward().ok()) << name;
    ASSERT_TRUE(bridge->backward(out_gradient).ok()) << name;
  }
  EXPECT_EQ(one.output().out, other.output().out) << name;
  ref::Gradients a = one.reference_gradients();
  ref::Gradients b = other.reference_gradients();
  EXPECT_EQ(a.q, b.q) << name;
  EXPECT_EQ(a.k, b.k) << name;
  EXPECT_EQ(a.v, b.v) << name;
  for (std::size_t n = 0; n < a.schemes.size(); ++n) {
    std::visit(
        [&]<class S>(S& mine) {
          const ref::Parameters x = mine.parameters();
          const ref::Parameters y = std::get<S>(b.schemes[n]).parameters();
          for (std::size_t k = 0; k < x.size(); ++k) {
            EXPECT_TRUE(std::equal(x[k].values.begin(), x[k].values.end(), y[k].values.begin())) << name << ", d " << x[k].name;
          }
        },
        a.schemes[n]);
  }
}

/// The problem with NaN in the keys and values that the mask hides.
inline ref::Problem with_nan_behind_the_mask(ref::Problem p) {
  const ref::Shape& s = p.shape;
  for (std::int64_t n = 0; n < s.batch * s.keys; ++n) {
    if (p.visibility.key_mask[static_cast<std::size_t>(n)] != 0) continue;
    std::fill_n(p.k.begin() + n * s.key_heads * s.width, s.key_heads * s.width, NAN);
    std::fill_n(p.v.begin() + n * s.key_heads * s.value_width, s.key_heads * s.value_width, NAN);
  }
  return p;
}

/// What a call that must fail says.
inline std::string failure_of(Bridge& bridge) {
  const Status status = bridge.forward();
  return status.ok() ? "no failure" : status.message();
}

}  // namespace phasor::test
