// SPDX-License-Identifier: Apache-2.0
// Real: the high-precision number that plans are computed in, and the few functions on it that Boost has not or has too slowly.
#pragma once

#include <boost/multiprecision/cpp_bin_float.hpp>
#include <cstdint>
#include <vector>

#include "math/phase/phase.hpp"

namespace phasor::plan {

/// 320 bits: a step keeps 192 bits below the point and up to 62 above it, so some 60 bits guard every rounding.
using Real = boost::multiprecision::number<boost::multiprecision::cpp_bin_float<320, boost::multiprecision::digit_base_2>,
                                           boost::multiprecision::et_off>;

// A float64 formula in a plan would be a quiet loss of 267 bits: it does not compile.
Real exp(double) = delete;
Real log(double) = delete;
Real pow(double, double) = delete;
Real sqrt(double) = delete;

/// 1 / (2 pi) and 2 pi, computed once.
const Real& turns_per_radian();
const Real& radians_per_turn();

/// x^(-1/n) for x > 0 and 1 <= n <= 2^20, relative error below 2^-310.
Real inverse_root(const Real& x, std::int64_t n);

/// ln(x) for x > 0, absolute error below 2^-295; Boost's takes two to five times as long.
Real natural_log(const Real& x);

/// e^x, relative error below 2^-270 for |x| < 2^20; 0 below -2^20.
Real exponential(const Real& x);

/// start, start * ratio, start * ratio^2, ...: relative error below n (2^-318 + the ratio's own).
std::vector<Real> geometric(const Real& start, const Real& ratio, std::int64_t n);

/// The float64 nearest to x, ties to even, subnormals too.
double nearest_double(const Real& x);

/// The multiple of 2^-192 turns nearest to a frequency in radians a position; needs |frequency| < 2^64.
math::Step step_of(const Real& frequency);
/// The same of turns a position; needs |turns| < 2^62.
math::Step step_of_turns(const Real& turns);

}  // namespace phasor::plan
