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

/// Positions of one axis whose type is known before it runs: what reads some of them together asks for all before it waits for one.
template <class T>
struct PositionsOf {
  const T* data;
  int64_t batch_stride;
  int64_t token_stride;
  PHASOR_HD T at(int64_t batch, int64_t token) const { return data[batch * batch_stride + token * token_stride]; }
};
struct CountedPositions {
  int64_t offset;
  PHASOR_HD int64_t at(int64_t /*batch*/, int64_t token) const {
    return static_cast<int64_t>(static_cast<math::u64>(offset) + static_cast<math::u64>(token));
  }
};
/// body(positions of an axis), which are not f64.
template <class Body>
PHASOR_HD inline auto with_whole_positions(const job::PositionSource& p, int64_t axis, const Body& body) {
  if (p.data == nullptr) return body(CountedPositions{p.offset});
  const int64_t first = axis * p.axis_stride;
  if (p.type == PositionType::i32) {
    return body(PositionsOf<std::int32_t>{static_cast<const std::int32_t*>(p.data) + first, p.batch_stride, p.token_stride});
  }
  return body(PositionsOf<int64_t>{static_cast<const int64_t*>(p.data) + first, p.batch_stride, p.token_stride});
}
template <class Body>
PHASOR_HD inline auto with_positions(const job::PositionSource& p, int64_t axis, const Body& body) {
  if (!has_fractions(p)) return with_whole_positions(p, axis, body);
  return body(PositionsOf<double>{static_cast<const double*>(p.data) + axis * p.axis_stride, p.batch_stride, p.token_stride});
}

/// Positions of one axis and batch row, not f64: what is the same for all of its tokens is found once.
struct RowOfPositions {
  const std::byte* first;  // null: they are counted from `offset`
  int64_t stride;          // in bytes
  int64_t offset;
  bool narrow;
};
PHASOR_HD inline RowOfPositions row_of(const job::PositionSource& p, int64_t axis, int64_t batch) {
  const bool narrow = p.type == PositionType::i32;
  const int64_t bytes = narrow ? 4 : 8;
  const auto* const data = static_cast<const std::byte*>(p.data);
  return {data == nullptr ? nullptr : data + (axis * p.axis_stride + batch * p.batch_stride) * bytes, p.token_stride * bytes, p.offset,
          narrow};
}

/// Those of a type that lie `stride` bytes apart, the last of `count` again and again beyond it: nothing is asked between two loads.
template <class T, int run>
PHASOR_HD inline void read_each(const std::byte* here, int64_t stride, int count, int64_t (&at)[run]) {
  for (int j = 0; j < run; ++j) {
    at[j] = *reinterpret_cast<const T*>(here);
    here += j + 1 < count ? stride : 0;
  }
}
/// The positions of `count` tokens, at least one; of `run` where there are more.
template <int run>
PHASOR_HD inline void read_positions(const RowOfPositions& row, int64_t token, int count, int64_t (&at)[run]) {
  if (row.first == nullptr) {
    for (int j = 0; j < run; ++j) at[j] = static_cast<int64_t>(static_cast<math::u64>(row.offset) + static_cast<math::u64>(token + j));
  } else if (row.narrow) {
    read_each<std::int32_t>(row.first + token * row.stride, row.stride, count, at);
  } else {
    read_each<int64_t>(row.first + token * row.stride, row.stride, count, at);
  }
}

}  // namespace phasor::cuda
