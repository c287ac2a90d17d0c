// SPDX-License-Identifier: Apache-2.0
#include "attention/support/compare.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace phasor::test {

double apart(const ref::Values& x, const ref::Values& y) {
  if (x.size() != y.size()) return INFINITY;
  double worst = 0;
  for (std::size_t n = 0; n < x.size(); ++n) {
    if (x[n] == y[n]) continue;  // infinities
    const double d = std::fabs(x[n] - y[n]);
    if (std::isnan(d)) return INFINITY;
    worst = std::max(worst, d);
  }
  return worst;
}

void expect_same(const ref::Output& is, const ref::Output& wanted, const std::string& name, double tolerance) {
  EXPECT_LE(apart(is.out, wanted.out), tolerance) << name;
  EXPECT_LE(apart(is.lse, wanted.lse), tolerance) << name;
}

void expect_other(const ref::Output& is, const ref::Output& unwanted, const std::string& name) {
  EXPECT_GT(apart(is.out, unwanted.out), 1e-3) << name;
}

ref::Problem with_keys(const ref::Problem& p, std::int64_t first, std::int64_t end) {
  ref::Problem part = p;
  const ref::Shape& s = p.shape;
  part.shape.keys = end - first;
  part.k.clear(), part.v.clear(), part.query_positions.clear(), part.key_positions.clear(), part.visibility.key_mask.clear();
  for (std::int64_t b = 0; b < s.batch; ++b) {
    for (std::int64_t i = 0; i < s.queries; ++i) part.query_positions.push_back(ref::query_position(p, {.b = b, .i = i}));
    for (std::int64_t j = first; j < end; ++j) {
      const ref::Cell cell{.b = b, .j = j};
      part.key_positions.push_back(ref::key_position(p, cell));
      if (!p.visibility.key_mask.empty())
        part.visibility.key_mask.push_back(p.visibility.key_mask[static_cast<std::size_t>(b * s.keys + j)]);
      const auto k = p.k.begin() + ref::key_row(p, cell);
      const auto v = p.v.begin() + ref::value_row(p, cell);
      part.k.insert(part.k.end(), k, k + s.key_heads * s.width);
      part.v.insert(part.v.end(), v, v + s.key_heads * s.value_width);
    }
  }
  return part;
}

}  // namespace phasor::test
