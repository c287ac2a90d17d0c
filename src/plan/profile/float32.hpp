// SPDX-License-Identifier: Apache-2.0
// Elementary functions correctly rounded to float32 or float64, through 320-bit reals. + - * / of plain float and double are so already.
#pragma once

#include <vector>

#include "plan/real.hpp"

namespace phasor::plan {

inline float nearest_float(const Real& x) { return static_cast<float>(x); }

/// x^y for x > 0.
Real power(const Real& x, const Real& y);

inline float power32(float x, float y) { return nearest_float(power(Real(x), Real(y))); }
inline double power64(double x, double y) { return nearest_double(power(Real(x), Real(y))); }
inline float log32(float x) { return nearest_float(natural_log(Real(x))); }
inline double log64(double x) { return nearest_double(natural_log(Real(x))); }
inline float exp32(float x) { return nearest_float(exponential(Real(x))); }
inline double sqrt64(double x) { return nearest_double(sqrt(Real(x))); }

/// base^y for each y, base > 0: one logarithm for all.
std::vector<float> powers32(float base, const std::vector<float>& exponents);

}  // namespace phasor::plan
