// SPDX-License-Identifier: Apache-2.0
#include "attention/support/every_target.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>

namespace phasor::test {

void expect_on_every_target(const ref::Problem& problem, const std::string& name) {
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

Runner backwards_runner() {
  return {.run = [](void*, std::int64_t tasks, void (*task)(void*, std::int64_t), void* context) {
    for (std::int64_t i = tasks; i-- > 0;) task(context, i);
  }};
}

void expect_same_bits_by_any_runner(const ref::Problem& problem, const std::string& name) {
  Bridge one(problem, DType::f32);
  Bridge other(problem, DType::f32);
  other.spec.execution.runner = backwards_runner();
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
  EXPECT_EQ(a.sinks, b.sinks) << name;
  for (std::size_t n = 0; n < a.schemes.size(); ++n) {
    const ref::Parameters x = parameters_of(a.schemes[n]);
    const ref::Parameters y = parameters_of(b.schemes[n]);
    for (std::size_t k = 0; k < x.size(); ++k) {
      EXPECT_TRUE(std::equal(x[k].values.begin(), x[k].values.end(), y[k].values.begin())) << name << ", d " << x[k].name;
    }
  }
}

ref::Problem with_nan_behind_the_mask(ref::Problem p) {
  const ref::Shape& s = p.shape;
  for (std::int64_t n = 0; n < s.batch * s.keys; ++n) {
    if (p.visibility.key_mask[static_cast<std::size_t>(n)] != 0) continue;
    std::fill_n(p.k.begin() + n * s.key_heads * s.width, s.key_heads * s.width, NAN);
    std::fill_n(p.v.begin() + n * s.key_heads * s.value_width, s.key_heads * s.value_width, NAN);
  }
  return p;
}

std::string failure_of(Bridge& bridge) {
  const Status status = bridge.forward();
  return status.ok() ? "no failure" : status.message();
}

}  // namespace phasor::test
