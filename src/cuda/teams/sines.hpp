// SPDX-License-Identifier: Apache-2.0
// The cosine and sine that one thread makes of a step and a position: what it reads, and level 1.
#pragma once

#include <cstdint>

#include "cuda/rotary/row_value.hpp"
#include "math/sincos_pairs.hpp"

namespace phasor::cuda {

/// What sines are of: whole positions, strides in elements.
struct SineSource {
  const void* positions = nullptr;  // null: offset + token
  int64_t offset = 0;
  unsigned position_token = 0;
  bool narrow_positions = false;
  bool many_axes = false;
  float sine_sign = 1;
  math::FloatPair amplitude = {1, 0};
  unsigned position_batch = 0;
  unsigned position_axis = 0;
};
inline SineSource sines_of(const job::RowSource& rows) {
  const job::PositionSource& positions = rows.positions;
  SineSource sines;
  sines.positions = positions.data;
  sines.offset = positions.offset;
  sines.position_token = static_cast<unsigned>(positions.token_stride);
  sines.position_batch = static_cast<unsigned>(positions.batch_stride);
  sines.position_axis = static_cast<unsigned>(positions.axis_stride);
  sines.narrow_positions = positions.data != nullptr && positions.type == PositionType::i32;
  sines.many_axes = rows.axis_of_pair != nullptr;
  sines.sine_sign = static_cast<float>(rows.sine_sign);
  sines.amplitude = math::pair_of(rows.amplitude);
  return sines;
}

/// A position as it lies in memory, with zeros above 32 bits: nothing is done to it before it is needed, which would wait for it.
PHASOR_HD inline math::u64 position_bits(const SineSource& sines, unsigned axis, int batch, int token) {
  if (sines.positions == nullptr) return static_cast<math::u64>(sines.offset) + static_cast<math::u64>(token);
  const math::u64 index = math::u64{axis} * sines.position_axis + math::u64{static_cast<unsigned>(batch)} * sines.position_batch +
                          math::u64{static_cast<unsigned>(token)} * sines.position_token;
  return sines.narrow_positions ? static_cast<const math::u32*>(sines.positions)[index]
                                : static_cast<const math::u64*>(sines.positions)[index];
}
PHASOR_HD inline int64_t position_of(const SineSource& sines, math::u64 bits) {
  return sines.narrow_positions ? int64_t{static_cast<std::int32_t>(bits)} : static_cast<int64_t>(bits);
}

/// What a thread asks memory for before anything else: its sine waits for it.
struct Asked {
  math::Step step;
  math::u64 position;
};

/// True where the value is not proven to be rounded to nearest.
PHASOR_HD inline bool sine_of(const SineSource& sines, const Asked& asked, CosSin<float>& value) {
  const int64_t position = position_of(sines, asked.position);
  const bool doubt = math::sincos_by_pairs(math::phase128_of(asked.step, position), position, sines.amplitude, value.cos, value.sin);
  value.sin *= sines.sine_sign;
  return doubt;
}

}  // namespace phasor::cuda
