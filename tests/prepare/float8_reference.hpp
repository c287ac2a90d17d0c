// SPDX-License-Identifier: Apache-2.0
// Numbers of 8 bits by their definition (OCP 8-bit floating point specification 1.0), one value for each code. Shares no code with src/.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>

namespace phasor::reference {

/// What each of 256 codes means.
using Values8 = std::array<double, 256>;

inline Values8 values_of_e4m3() {
  Values8 values{};
  for (int code = 0; code < 256; ++code) {
    const int exponent = code >> 3 & 15;
    const int mantissa = code & 7;
    double magnitude = exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(8 + mantissa, exponent - 10);
    if ((code & 0x7f) == 0x7f) magnitude = std::numeric_limits<double>::quiet_NaN();
    values[static_cast<std::size_t>(code)] = code < 128 ? magnitude : -magnitude;
  }
  return values;
}

inline Values8 values_of_e5m2() {
  Values8 values{};
  for (int code = 0; code < 256; ++code) {
    const int exponent = code >> 2 & 31;
    const int mantissa = code & 3;
    double magnitude = exponent == 0 ? std::ldexp(mantissa, -16) : std::ldexp(4 + mantissa, exponent - 17);
    if (exponent == 31) magnitude = mantissa == 0 ? std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
    values[static_cast<std::size_t>(code)] = code < 128 ? magnitude : -magnitude;
  }
  return values;
}

/// The code nearest to x by looking at all that are finite; of two as near, the even one. Beyond them the largest; a NaN is code 0x7f.
inline std::uint8_t nearest_of(const Values8& values, double x) {
  const int sign = std::signbit(x) ? 0x80 : 0;
  if (std::isnan(x)) return static_cast<std::uint8_t>(0x7f | sign);
  int best = 0;
  for (int code = 0; code < 128; ++code) {
    const double value = values[static_cast<std::size_t>(code)];
    if (!std::isfinite(value)) continue;
    const double is = std::fabs(std::fabs(x) - value);
    const double was = std::fabs(std::fabs(x) - values[static_cast<std::size_t>(best)]);
    if (std::fabs(x) >= value || is < was || (is == was && code % 2 == 0)) best = code;
  }
  return static_cast<std::uint8_t>(best | sign);
}

inline std::uint8_t nearest_i8(double x) {
  if (std::isnan(x)) return 0;
  return static_cast<std::uint8_t>(static_cast<int>(std::nearbyint(std::fmin(std::fmax(x, -128), 127))));
}

}  // namespace phasor::reference
