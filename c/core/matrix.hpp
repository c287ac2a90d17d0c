// SPDX-License-Identifier: Apache-2.0
// Matrices that go to the caller's buffers.
#pragma once

#include <algorithm>
#include <string>

#include "core/call.hpp"
#include "phasor/analysis.hpp"
#include "phasor/c/analysis.h"

namespace phasor::c {

inline void tell_shape(const Matrix& matrix, phasor_matrix& to) {
  to.rows = matrix.rows;
  to.columns = matrix.columns;
}

inline void check_room(const char* where, const Matrix& matrix, const phasor_matrix& to) {
  const std::size_t room = to.data == nullptr ? 0 : to.capacity;
  if (room >= matrix.values.size()) return;
  fail(
      std::string(where) + ": the matrix has room for " + std::to_string(room) + " numbers, wanted " + std::to_string(matrix.values.size()),
      PHASOR_TOO_SMALL);
}

inline void give(const char* where, const Matrix& matrix, phasor_matrix* to) {
  tell_shape(matrix, *need(where, "the matrix", to));
  check_room(where, matrix, *to);
  std::copy(matrix.values.begin(), matrix.values.end(), to->data);
}

}  // namespace phasor::c
