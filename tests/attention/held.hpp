// SPDX-License-Identifier: Apache-2.0
// Holding attention of the library against the reference: a case, its tolerance, and the shapes and masks that cases are made of.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "attention/bridge.hpp"
#include "attention/problems.hpp"

namespace phasor::test {

/// Relative to 1 + the value: sums of some hundred products in arithmetic of 2^-53 or 2^-24, and outputs rounded to their dtype.
inline double forward_tolerance(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return 1e-12;
    case DType::f32:
      return 1e-5;
    case DType::f16:
      return 0x1p-11;
    case DType::bf16:
      return 0x1p-8;
  }
  return 0;
}
/// The logarithm is never 16-bit.
inline double lse_tolerance(DType dtype) { return forward_tolerance(dtype == DType::f64 ? DType::f64 : DType::f32); }

/// The largest |x - y| / (1 + |y|); infinite where sizes differ or one is no number.
inline double far_apart(const ref::Values& is, const ref::Values& wanted) {
  if (is.size() != wanted.size()) return INFINITY;
  double worst = 0;
  for (std::size_t n = 0; n < is.size(); ++n) {
    if (is[n] == wanted[n]) continue;  // infinities
    const double d = std::fabs(is[n] - wanted[n]) / (1 + std::fabs(wanted[n]));
    if (!(d <= worst)) worst = std::isnan(d) ? INFINITY : d;
  }
  return worst;
}

/// Runs the problem and compares outputs with the reference's.
inline void expect_forward(const ref::Problem& problem, DType dtype, const std::string& name, Order order = Order::tokens_first) {
  Bridge bridge(problem, dtype, order);
  const Status status = bridge.forward();
  ASSERT_TRUE(status.ok()) << name << ": " << status.message();
  const ref::Output wanted = ref::forward(bridge.problem);
  EXPECT_LE(far_apart(bridge.output().out, wanted.out), forward_tolerance(dtype)) << name << ", " << name_of(dtype);
  EXPECT_LE(far_apart(bridge.output().lse, wanted.lse), lse_tolerance(dtype)) << name << ", " << name_of(dtype);
}

/// Shapes around the edges of tiles, with GQA, widths that are no multiples of anything, and fewer or more queries than keys.
inline std::vector<ref::Shape> edge_shapes() {
  std::vector<ref::Shape> shapes;
  for (const auto& [queries, keys] : {std::pair{1, 1}, {1, 65}, {8, 600}, {9, 63}, {95, 64}, {96, 96}, {97, 129}, {160, 31}}) {
    shapes.push_back({.batch = 2, .queries = queries, .keys = keys, .heads = 4, .key_heads = 2, .width = 10, .value_width = 7});
  }
  shapes.push_back({.batch = 1, .queries = 33, .keys = 70, .heads = 3, .key_heads = 1, .width = 40, .value_width = 36});
  return shapes;
}

struct NamedMask {
  std::string name;
  ref::Visibility visibility;
};
/// Every kind of mask that fits any shape.
inline std::vector<NamedMask> every_mask(const ref::Shape& s) {
  std::vector<std::uint8_t> padding(static_cast<std::size_t>(s.batch * s.keys), 1);
  for (std::size_t n = 0; n < padding.size(); n += 3) padding[n] = 0;
  std::vector<std::uint8_t> nobody(padding.size(), 0);
  ref::Integers prefix;
  for (std::int64_t b = 0; b < s.batch; ++b) prefix.push_back(s.keys / 2 + b);
  return {{"full", {}},
          {"causal", {.causal = true}},
          {"window", {.left = 5, .right = 3}},
          {"wide window", {.causal = true, .left = 70}},
          {"nothing in the window", {.left = -s.queries - s.keys, .right = 0}},
          {"prefix", {.causal = true, .prefix = prefix}},
          {"padding", {.key_mask = padding}},
          {"causal padding", {.causal = true, .key_mask = padding}},
          {"all padding", {.key_mask = nobody}}};
}

}  // namespace phasor::test
