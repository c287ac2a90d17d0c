// SPDX-License-Identifier: Apache-2.0
// The factor on scores that a model states as the number it is the inverse root of.
#pragma once

#include <cmath>

namespace phasor::math {

/// 1 / sqrt(x), x > 0.
inline double inverse_root(double x) { return 1 / std::sqrt(x); }

}  // namespace phasor::math
