// SPDX-License-Identifier: Apache-2.0
// Numbers of 8 bits as the float32 that they are: what float8.inl narrows, exactly.
#pragma once

#include "math/portable.hpp"

namespace phasor::math {

/// The value of a float8's bits: normal ones have their exponent moved, subnormal ones are whole steps of the least.
PHASOR_HD inline float value_of_f8(u32 bits, int mantissa, int bias, bool has_infinity) {
  const u32 magnitude = bits & 0x7fU;
  const u32 sign = (bits & 0x80U) << 24;
  const u32 exponent = magnitude >> mantissa;
  const u32 top = (1U << (7 - mantissa)) - 1;
  u32 value = 0;
  if (has_infinity ? exponent == top : magnitude == 0x7fU) {
    value = 0x7f800000U | (magnitude << (23 - mantissa) & 0x7fffffU);
  } else if (exponent != 0) {
    value = (magnitude << (23 - mantissa)) + (static_cast<u32>(127 - bias) << 23);
  } else {
    const float step = bit_cast<float>(static_cast<u32>(127 + 1 - bias - mantissa) << 23);
    value = bit_cast<u32>(static_cast<float>(magnitude) * step);
  }
  return bit_cast<float>(value | sign);
}
PHASOR_HD inline float value_of_e4m3(u32 bits) { return value_of_f8(bits, 3, 7, false); }
PHASOR_HD inline float value_of_e5m2(u32 bits) { return value_of_f8(bits, 2, 15, true); }

}  // namespace phasor::math
