// SPDX-License-Identifier: Apache-2.0
// What the files of the reference share: dot products, rows of tables, checks of sizes.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

#include "attention/reference/reference.hpp"

namespace phasor::attend::reference {

inline double dot(const double* x, const double* y, std::int64_t n) {
  double sum = 0;
  for (std::int64_t c = 0; c < n; ++c) sum += x[c] * y[c];
  return sum;
}

/// sum += factor x
inline void add(double* sum, double factor, const double* x, std::int64_t n) {
  for (std::int64_t c = 0; c < n; ++c) sum[c] += factor * x[c];
}

inline const double* query(const Problem& p, const Cell& cell) { return p.q.data() + query_row(p, cell); }
inline const double* key(const Problem& p, const Cell& cell) { return p.k.data() + key_row(p, cell); }

inline void expect(bool condition, const std::string& what) {
  if (!condition) throw std::invalid_argument("attention reference: " + what);
}

inline void expect_size(const Values& values, std::int64_t wanted, const char* name) {
  expect(static_cast<std::int64_t>(values.size()) == wanted,
         std::string(name) + " has " + std::to_string(values.size()) + " values, wanted " + std::to_string(wanted));
}

}  // namespace phasor::attend::reference
