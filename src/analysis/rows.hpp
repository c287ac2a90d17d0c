// SPDX-License-Identifier: Apache-2.0
// Rows of tensors (1, rows, 1, D) as float64, checked, and the sums over them.
#pragma once

#include <cstdint>
#include <vector>

#include "phasor/result.hpp"
#include "phasor/tensor_view.hpp"

namespace phasor::analysis {

struct Rows {
  std::int64_t rows = 0;
  std::int64_t width = 0;
  std::vector<double> values;  // row by row

  const double* row(std::int64_t i) const { return values.data() + i * width; }
};

/// What a tensor is called in messages, and how many rows it may have.
struct RowLimits {
  const char* where;
  const char* name;
  std::int64_t least = 0;
  std::int64_t most = 0;
};

/// Checks, then copies. Throws bad_alloc.
Result<Rows> read_rows(const ConstTensorView& tensor, const RowLimits& limits);

inline double dot(const double* a, const double* b, std::int64_t width) {
  double sum = 0;
  for (std::int64_t i = 0; i < width; ++i) sum += a[i] * b[i];
  return sum;
}

}  // namespace phasor::analysis
