// SPDX-License-Identifier: Apache-2.0
// The gradient of a rotation by its angle, and the chain rule from there to frequencies and positions.
#pragma once

#include <cstdint>

#include "math/portable.hpp"

namespace phasor::math {

/// dL/dangle of y = A R(angle) x, counterclockwise, g = dL/dy: dy/dangle is y turned by a quarter, (-y1, y0), whatever A.
/// The products of float32 are exact in float64: their difference is rounded once.
PHASOR_HD inline double phase_gradient(double y0, double y1, double g0, double g1) { return g1 * y0 - g0 * y1; }

/// angle = sum over the axes of position * frequency: what a token adds to the gradient by a frequency, or a pair to that by a position.
PHASOR_HD inline double chained(double factor, double phase_gradient) { return factor * phase_gradient; }

/// The sum over pairs of frequency * phase gradient, in four sums by pair mod 4: a fixed order that does not wait for each addition.
template <class T>
PHASOR_HD double position_gradient(const double* frequencies, const T* phase_gradient, std::int64_t pairs) {
  double sums[4] = {0, 0, 0, 0};
  std::int64_t i = 0;
  for (; i + 4 <= pairs; i += 4) {
    for (int lane = 0; lane < 4; ++lane) sums[lane] += chained(frequencies[i + lane], phase_gradient[i + lane]);
  }
  for (int lane = 0; i < pairs; ++i, ++lane) sums[lane] += chained(frequencies[i], phase_gradient[i]);
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

}  // namespace phasor::math
