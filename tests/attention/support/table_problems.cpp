// SPDX-License-Identifier: Apache-2.0
#include "attention/support/table_problems.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace phasor::test {

/// Results are sums of some hundred terms, each a product of some ten roundings: relative to the largest value of a tensor, some hundred
/// half ulps.
double table_tolerance(DType dtype) { return dtype == DType::f64 ? 1e-13 : 256 * 0x1p-24; }

double largest_magnitude(const ref::Values& values) {
  double most = 0;
  for (const double x : values) most = std::max(most, std::isfinite(x) ? std::fabs(x) : 0);
  return most;
}
void expect_near(const ref::Values& is, const ref::Values& wanted, DType dtype, const std::string& name) {
  EXPECT_LE(apart(is, wanted), table_tolerance(dtype) * std::max(1.0, largest_magnitude(wanted))) << name;
}

void expect_scheme_gradients(ref::Gradients& is, ref::Gradients& wanted, DType dtype, const std::string& name) {
  const auto list = [](const ref::Parameter& p) { return ref::Values(p.values.begin(), p.values.end()); };
  for (std::size_t n = 0; n < wanted.schemes.size(); ++n) {
    const ref::Parameters own = parameters_of(is.schemes[n]);
    const ref::Parameters theirs = parameters_of(wanted.schemes[n]);
    for (std::size_t k = 0; k < theirs.size(); ++k) expect_near(list(own[k]), list(theirs[k]), dtype, name + ", d " + theirs[k].name);
  }
}

ref::TransformerXl xl_table(const ref::Shape& s, std::int64_t reach) {
  Numbers random(8);
  return {.u = random.values(s.heads * s.width),
          .v = random.values(s.heads * s.width),
          .table = random.values(s.heads * (2 * reach + 1) * s.width),
          .first_distance = -reach};
}

ref::Integers shuffled(std::int64_t n, std::int64_t first) {
  ref::Integers order(static_cast<std::size_t>(n));
  std::int64_t step = n / 3 + 1;
  const auto shares = [n](std::int64_t s) { return std::gcd(s, n) != 1; };
  while (shares(step)) ++step;
  for (std::int64_t t = 0; t < n; ++t) order[static_cast<std::size_t>(t)] = first + t * step % n;
  return order;
}

ref::Integers repeated(const ref::Integers& row, std::int64_t batch) {
  ref::Integers all;
  for (std::int64_t b = 0; b < batch; ++b) all.insert(all.end(), row.begin(), row.end());
  return all;
}

std::vector<MaskedProblem> masked_problems(bool per_batch) {
  const ref::Shape square{.batch = 2, .queries = 203, .keys = 203, .heads = 2, .key_heads = 1, .width = 5, .value_width = 3};
  ref::Shape wide = square;
  wide.queries = 110;
  wide.keys = 230;
  std::vector<MaskedProblem> list;
  const auto add = [&](const std::string& name, const ref::Shape& shape) -> ref::Problem& {
    return list.emplace_back(MaskedProblem{name, random_problem(shape, list.size() + 5)}).problem;
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
