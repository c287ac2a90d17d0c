// SPDX-License-Identifier: Apache-2.0
// Holding attention with tables against the reference: forward and every gradient, in float64 and float32.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "attention/bridge.hpp"
#include "attention/compare.hpp"
#include "attention/problems.hpp"

namespace phasor::test {

/// Results are sums of some hundred terms, each a product of some ten roundings: relative to the largest value of a tensor, some hundred
/// half ulps.
inline double table_tolerance(DType dtype) { return dtype == DType::f64 ? 1e-13 : 256 * 0x1p-24; }

inline double largest_magnitude(const ref::Values& values) {
  double most = 0;
  for (const double x : values) most = std::max(most, std::isfinite(x) ? std::fabs(x) : 0);
  return most;
}
inline void expect_near(const ref::Values& is, const ref::Values& wanted, DType dtype, const std::string& name) {
  EXPECT_LE(apart(is, wanted), table_tolerance(dtype) * std::max(1.0, largest_magnitude(wanted))) << name;
}

inline void expect_scheme_gradients(ref::Gradients& is, ref::Gradients& wanted, DType dtype, const std::string& name) {
  for (std::size_t n = 0; n < wanted.schemes.size(); ++n) {
    std::visit(
        [&]<class S>(S& one) {
          const ref::Parameters own = std::get<S>(is.schemes[n]).parameters();
          const ref::Parameters theirs = one.parameters();
          for (std::size_t k = 0; k < theirs.size(); ++k) {
            expect_near(ref::Values(own[k].values.begin(), own[k].values.end()),
                        ref::Values(theirs[k].values.begin(), theirs[k].values.end()), dtype, name + ", d " + theirs[k].name);
          }
        },
        wanted.schemes[n]);
  }
}

/// Forward, and backward with all gradients, of one problem.
inline void expect_as_reference(const ref::Problem& problem, DType dtype, const std::string& name) {
  Bridge bridge(problem, dtype);
  const Status forward = bridge.forward();
  ASSERT_TRUE(forward.ok()) << name << ": " << forward.message();
  const ref::Output wanted = ref::forward(bridge.problem);
  expect_near(bridge.output().out, wanted.out, dtype, name + ", out");
  expect_near(bridge.output().lse, wanted.lse, dtype, name + ", lse");
  Numbers random(77);
  ref::Values out_gradient = random.values(static_cast<std::int64_t>(wanted.out.size()));
  ref::Values lse_gradient = random.values(static_cast<std::int64_t>(wanted.lse.size()));
  round_all(out_gradient, dtype);
  round_all(lse_gradient, dtype);
  const Status backward = bridge.backward(out_gradient, lse_gradient);
  ASSERT_TRUE(backward.ok()) << name << ": " << backward.message();
  ref::Gradients is = bridge.reference_gradients();
  ref::Gradients theirs = ref::backward(bridge.problem, out_gradient, lse_gradient);
  expect_near(is.q, theirs.q, dtype, name + ", dq");
  expect_near(is.k, theirs.k, dtype, name + ", dk");
  expect_near(is.v, theirs.v, dtype, name + ", dv");
  expect_scheme_gradients(is, theirs, dtype, name);
}
inline void expect_as_reference(const ref::Problem& problem, const std::string& name) {
  expect_as_reference(problem, DType::f64, name + ", f64");
  expect_as_reference(problem, DType::f32, name + ", f32");
}

/// Rows for the distances -reach to reach.
inline ref::TransformerXl xl_table(const ref::Shape& s, std::int64_t reach) {
  Numbers random(8);
  return {.u = random.values(s.heads * s.width),
          .v = random.values(s.heads * s.width),
          .table = random.values(s.heads * (2 * reach + 1) * s.width),
          .first_distance = -reach};
}

// ---- Who sees whom ----

struct NamedSight {
  std::string name;
  ref::Problem problem;
};

/// Integers 0 to n - 1, each once, in an order that no tile knows.
inline ref::Integers shuffled(std::int64_t n, std::int64_t first = 0) {
  ref::Integers order(static_cast<std::size_t>(n));
  std::int64_t step = n / 3 + 1;
  const auto shares = [n](std::int64_t s) { return std::gcd(s, n) != 1; };
  while (shares(step)) ++step;
  for (std::int64_t t = 0; t < n; ++t) order[static_cast<std::size_t>(t)] = first + t * step % n;
  return order;
}

inline ref::Integers repeated(const ref::Integers& row, std::int64_t batch) {
  ref::Integers all;
  for (std::int64_t b = 0; b < batch; ++b) all.insert(all.end(), row.begin(), row.end());
  return all;
}

/// Problems without schemes: full, causal, windows, other lengths, varlen, shuffled, padding, soft cap, decoding. Tiles are of 96 queries
/// and 64 keys: lengths are beyond two of them.
inline std::vector<NamedSight> table_sights(bool per_batch = false) {
  const ref::Shape square{.batch = 2, .queries = 203, .keys = 203, .heads = 2, .key_heads = 1, .width = 5, .value_width = 3};
  ref::Shape wide = square;
  wide.queries = 110;
  wide.keys = 230;
  std::vector<NamedSight> list;
  const auto add = [&](const std::string& name, const ref::Shape& shape) -> ref::Problem& {
    return list.emplace_back(NamedSight{name, random_problem(shape, list.size() + 5)}).problem;
  };
  add("full", square);
  add("causal", square).visibility.causal = true;
  add("fewer queries", wide).visibility.causal = true;
  {
    ref::Problem& p = add("window", square);
    p.visibility.left = 70;
    p.visibility.right = 20;
    p.softcap = 5;
  }
  {
    ref::Problem& p = add("shuffled", square);
    p.query_positions = repeated(shuffled(203, 1000), 2);
    p.key_positions = repeated(shuffled(203, 950), 2);
    p.visibility.causal = true;
  }
  {
    ref::Problem& p = add("padded", square);
    p.visibility.key_mask.assign(2 * 203, 1);
    for (std::size_t j = 150; j < 203; ++j) p.visibility.key_mask[j] = 0;
  }
  {
    ref::Shape few = square;
    few.queries = 3;
    few.keys = 700;
    add("decoding", few).visibility.causal = true;
  }
  if (per_batch) return list;
  ref::Shape one = square;
  one.batch = 1;
  one.queries = 240;
  one.keys = 260;
  ref::Problem& p = add("varlen", one);
  p.visibility.query_starts = {0, 30, 30, 180, 240};
  p.visibility.key_starts = {0, 40, 50, 200, 260};
  return list;
}

}  // namespace phasor::test
