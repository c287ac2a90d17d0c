// SPDX-License-Identifier: Apache-2.0
// One position of one axis of a token.
#pragma once

#include <cstdint>

#include "job/rotary.hpp"

namespace phasor::cuda {

using std::int64_t;

/// Not of f64.
PHASOR_HD inline int64_t whole_position(const job::PositionSource& p, int64_t axis, int64_t batch, int64_t token) {
  if (p.data == nullptr) return static_cast<int64_t>(static_cast<math::u64>(p.offset) + static_cast<math::u64>(token));
  const int64_t index = axis * p.axis_stride + batch * p.batch_stride + token * p.token_stride;
  return p.type == PositionType::i32 ? static_cast<const std::int32_t*>(p.data)[index] : static_cast<const int64_t*>(p.data)[index];
}

PHASOR_HD inline bool has_fractions(const job::PositionSource& p) { return p.data != nullptr && p.type == PositionType::f64; }

/// Of f64 alone.
PHASOR_HD inline double fractional_position(const job::PositionSource& p, int64_t axis, int64_t batch, int64_t token) {
  return static_cast<const double*>(p.data)[axis * p.axis_stride + batch * p.batch_stride + token * p.token_stride];
}

PHASOR_HD inline double position_as_double(const job::PositionSource& p, int64_t axis, int64_t batch, int64_t token) {
  return has_fractions(p) ? fractional_position(p, axis, batch, token) : static_cast<double>(whole_position(p, axis, batch, token));
}

}  // namespace phasor::cuda
