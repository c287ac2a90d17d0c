// SPDX-License-Identifier: Apache-2.0
// Keys and values of padding, and queries that see nothing, which may be anything: NaN that a mask hides reaches no gradient.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>

#include "attention/general/machine.hpp"
#include "attention/support/held.hpp"

namespace phasor::test {

/// Makes key and value `key` of every batch row NaN, and masks them; what is masked already stays so.
inline void hide_keys_of_nan(ref::Problem& p, std::int64_t key) {
  const ref::Shape& s = p.shape;
  const double nan = std::numeric_limits<double>::quiet_NaN();
  p.visibility.key_mask.resize(static_cast<std::size_t>(s.batch * s.keys), 1);
  for (std::int64_t b = 0; b < s.batch; ++b) {
    const std::int64_t row = b * s.keys + key;
    p.visibility.key_mask[static_cast<std::size_t>(row)] = 0;
    for (std::int64_t c = 0; c < s.key_heads * s.width; ++c) p.k[static_cast<std::size_t>(row * s.key_heads * s.width + c)] = nan;
    for (std::int64_t c = 0; c < s.key_heads * s.value_width; ++c)
      p.v[static_cast<std::size_t>(row * s.key_heads * s.value_width + c)] = nan;
  }
}

/// Makes row `row` of `rows` of every batch row NaN.
inline void make_nan(ref::Values& values, std::int64_t rows, std::int64_t row, std::int64_t width) {
  const auto first = static_cast<std::size_t>(row * width);
  for (std::size_t at = first; at < values.size(); at += static_cast<std::size_t>(rows * width)) {
    for (std::size_t c = 0; c < static_cast<std::size_t>(width); ++c) values[at + c] = std::numeric_limits<double>::quiet_NaN();
  }
}

/// Under a causal mask the first kHiddenQueries queries see nothing: there are more queries than keys, or what they would see is padding on
/// the left.
constexpr std::int64_t kHiddenQueries = 9;
inline ref::Shape shape_of_hidden_queries(ref::Shape s, bool padded) {
  s.queries = padded ? s.keys : s.keys + kHiddenQueries;
  return s;
}
/// Makes those queries NaN.
inline void hide_queries_of_nan(ref::Problem& p, bool padded) {
  p.visibility = {.causal = true};
  for (std::int64_t n = 0; n < kHiddenQueries; ++n) {
    if (padded) hide_keys_of_nan(p, n);
    make_nan(p.q, p.shape.queries, n, p.shape.heads * p.shape.width);
  }
}

/// `hidden`: so many queries, the first ones, see nothing, and the gradients of their outputs are NaN. with_lse: the
/// log-sum-exp has a gradient, too.
inline void expect_finite_gradients(const ref::Problem& p, DType dtype, std::int64_t hidden = 0, bool with_lse = false) {
  const ref::Shape& s = p.shape;
  Bridge bridge(p, dtype);
  ASSERT_TRUE(bridge.forward().ok());
  ref::Values out_gradient = Numbers(3).values(s.batch * s.queries * s.heads * s.value_width);
  for (std::int64_t query = 0; query < hidden; ++query) make_nan(out_gradient, s.queries, query, s.heads * s.value_width);
  const ref::Values lse_gradient = Numbers(4).values(with_lse ? s.batch * s.queries * s.heads : 0);
  ASSERT_TRUE(bridge.backward(out_gradient, lse_gradient).ok());
  ref::Gradients is = bridge.reference_gradients();
  const auto expect_finite = [](const auto& values, const std::string& name) {
    for (const double x : values) ASSERT_TRUE(std::isfinite(x)) << name;
  };
  expect_finite(is.q, "q");
  expect_finite(is.k, "k");
  expect_finite(is.v, "v");
  expect_finite(is.sinks, "sinks");
  for (ref::Scheme& scheme : is.schemes) {
    for (const ref::Parameter& one : parameters_of(scheme)) expect_finite(one.values, one.name);
  }
}

}  // namespace phasor::test
