// SPDX-License-Identifier: Apache-2.0
// The formulas of attention's host side. Speed goes before the last bit here: attention promises no equal bits between machines.
#pragma once

#include <cmath>
#include <cstdint>

#include "math/portable.hpp"

namespace phasor::plan {

/// What scores are multiplied by where the call does not say.
inline double default_scale(std::int64_t width) { return 1 / std::sqrt(static_cast<double>(width)); }

/// xPos: zeta^distance.
PHASOR_HD inline double decay_factor(double log_zeta, double distance) { return std::exp(log_zeta * distance); }

/// ln(zeta) of a pair.
PHASOR_HD inline double xpos_log_zeta(std::int64_t pair, std::int64_t pairs, double gamma) {
  return std::log((static_cast<double>(pair) / static_cast<double>(pairs) + gamma) / (1 + gamma));
}

/// What general kernels make of scores, in their arithmetic.
template <class T>
PHASOR_HD inline T exponential(T x) {
  return std::exp(x);
}
template <class T>
PHASOR_HD inline T logarithm(T x) {
  return std::log(x);
}
/// s <- cap tanh(s / cap), and what that multiplies gradients by, from the capped score.
template <class T>
PHASOR_HD inline T soft_cap(T score, T cap) {
  return cap * std::tanh(score / cap);
}
template <class T>
PHASOR_HD inline T soft_cap_slope(T capped, T cap) {
  return 1 - capped / cap * (capped / cap);
}
/// 1 / (1 + e^-x); no exponential overflows.
template <class T>
PHASOR_HD inline T gate_of(T x) {
  const T e = std::exp(x < 0 ? x : -x);
  return (x < 0 ? e : T{1}) / (1 + e);
}

/// What a part with the logarithm of sums `part` counts for in a whole with `whole`.
PHASOR_HD inline double weight_of_part(double part, double whole) { return std::exp(part - whole); }

/// The length of a vector whose squares add up to `squares`.
inline double norm_of_squares(double squares) { return std::sqrt(squares); }

/// KERPLE's two kernels of a distance a >= 0 without their factor r1, and their derivatives by r2.
inline double kerple_logarithm(double a, double r2) { return std::log1p(r2 * a); }
inline double kerple_logarithm_by_r2(double a, double r2) { return a / (1 + r2 * a); }
inline double kerple_power(double a, double r2) { return std::pow(a, r2); }
inline double kerple_power_by_r2(double a, double r2) { return kerple_power(a, r2) * std::log(a); }

/// The row of a table of one axis of two grids: both coordinates in units of the finer grid, as MViTv2 rounds them, towards zero, in
/// float64. A quotient of whole numbers.
PHASOR_HD inline std::int64_t grid_axis_row(std::int64_t query, std::int64_t key, std::int64_t queries, std::int64_t keys) {
  const double query_step = keys > queries ? static_cast<double>(keys) / static_cast<double>(queries) : 1.0;
  const double key_step = queries > keys ? static_cast<double>(queries) / static_cast<double>(keys) : 1.0;
  const double offset = static_cast<double>(query) * query_step - static_cast<double>(key) * key_step;
  return static_cast<std::int64_t>(offset + static_cast<double>(keys - 1) * key_step);
}

}  // namespace phasor::plan
