// SPDX-License-Identifier: Apache-2.0
// Angles the way the peers form them, in float32: what exact angles are compared with. Not used to rotate anything for a user.
#pragma once

#include <cmath>
#include <cstdint>

namespace phasor::analysis {

/// float32(position) * float32(frequency), rounded to float32.
inline float float32_angle(std::int64_t position, double frequency) { return static_cast<float>(position) * static_cast<float>(frequency); }

struct CosSin {
  double cos = 0;
  double sin = 0;
};

/// Of a float32 angle, right to a few units of double: all the error that is left is the angle's.
inline CosSin float32_cos_sin(std::int64_t position, double frequency, double amplitude) {
  const double angle = float32_angle(position, frequency);
  return {amplitude * std::cos(angle), amplitude * std::sin(angle)};
}

}  // namespace phasor::analysis
