// SPDX-License-Identifier: Apache-2.0
// Rows by distance that are added to values, by the definition, and how far from it Hopper's kernels may be.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "phasor/tensor_view.hpp"

namespace phasor::test {

/// What rows of a table are added to a query's values, and by how much that may be off.
struct ExpectedRows {
  std::vector<double> out, off;
};
/// `weights` of a query at a position, 0 where it sees no key; each may be off by so much of itself.
template <class Problem>
ExpectedRows expected_rows(const Problem& p, const std::vector<double>& weights, std::int64_t h, std::int64_t position, double of_weight) {
  const auto& table = p.value_table;
  const std::int64_t rows = table.shape[1], dv = table.shape[3], head = table.shape[2] == 1 ? 0 : h;
  std::vector<double> by_row(static_cast<std::size_t>(rows), 0.0);
  for (std::int64_t j = 0; j < static_cast<std::int64_t>(weights.size()); ++j) {
    by_row[static_cast<std::size_t>(std::clamp(j - position, -p.table_left, p.table_right) + p.table_left)] +=
        weights[static_cast<std::size_t>(j)];
  }
  ExpectedRows is = {std::vector<double>(static_cast<std::size_t>(dv), 0.0), std::vector<double>(static_cast<std::size_t>(dv), 0.0)};
  // Weights between the ends are rounded to float16, shrink by an exponential, and are rounded as others are. The first row's is what these
  // leave of the sum of all, if there is any.
  const double least = p.dtype == DType::bf16 ? 0x1p-25 : 0x1p-24;
  const double rounding = (p.dtype == DType::bf16 ? 0x1p-8 : 0x1p-11) + 0x1p-11 + 0x1p-20;
  double near = 0;
  for (std::int64_t r = 1; r < rows; ++r) near += by_row[static_cast<std::size_t>(r)];
  for (std::int64_t r = 0; r < rows; ++r) {
    const double weight = by_row[static_cast<std::size_t>(r)];
    const double off = weight * of_weight + (weight == 0 ? 0
                                             : r == 0    ? near * 0x1p-11 + of_weight + static_cast<double>(rows) * 0x1p-25
                                                         : weight * rounding + least);
    for (std::int64_t c = 0; c < dv; ++c) {
      const double x = static_cast<double>(table.values[static_cast<std::size_t>(table.at(0, r, head, c))]);
      is.out[static_cast<std::size_t>(c)] += weight * x, is.off[static_cast<std::size_t>(c)] += off * std::abs(x);
    }
  }
  return is;
}

}  // namespace phasor::test
