// SPDX-License-Identifier: Apache-2.0
// The formulas of attention's host side. Speed goes before the last bit here: attention promises no equal bits between machines.
#pragma once

#include <cmath>
#include <cstdint>

namespace phasor::plan {

/// What scores are multiplied by where the call does not say.
inline double default_scale(std::int64_t width) { return 1 / std::sqrt(static_cast<double>(width)); }

/// xPos: zeta^distance.
inline double decay_factor(double log_zeta, double distance) { return std::exp(log_zeta * distance); }

/// What a part with the logarithm of sums `part` counts for in a whole with `whole`.
inline double weight_of_part(double part, double whole) { return std::exp(part - whole); }

/// The length of a vector whose squares add up to `squares`.
inline double norm_of_squares(double squares) { return std::sqrt(squares); }

/// KERPLE's two kernels of a distance a >= 0 without their factor r1, and their derivatives by r2.
inline double kerple_logarithm(double a, double r2) { return std::log1p(r2 * a); }
inline double kerple_logarithm_by_r2(double a, double r2) { return a / (1 + r2 * a); }
inline double kerple_power(double a, double r2) { return std::pow(a, r2); }
inline double kerple_power_by_r2(double a, double r2) { return kerple_power(a, r2) * std::log(a); }

}  // namespace phasor::plan
