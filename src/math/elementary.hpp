// SPDX-License-Identifier: Apache-2.0
// Logarithm, exponential and roundings of float64 by plain IEEE operations: within an ulp, and the same bits on every machine, as no libm
// is.
#pragma once

#include <cmath>

#include "math/sincos.hpp"

namespace phasor::math {

namespace detail {

/// A function: device code has no constants of a host's namespace.
PHASOR_HD inline DoubleDouble ln2() { return {0x1.62e42fefa39efp-1, 0x1.abc9e3b39803fp-56}; }

PHASOR_HD inline DoubleDouble divide(DoubleDouble a, DoubleDouble b) {
  const double q = a.high / b.high;
  const DoubleDouble rest = a + -(b * DoubleDouble{q, 0});
  return quick_two_sum(q, rest.high / b.high);
}

/// atanh(z) / z - 1 over z^2, as a series in z^2; |z| < 0.172. The head in double-double: its relative error stays below 2^-66.
PHASOR_HD inline DoubleDouble atanh_series(DoubleDouble z2) {
  double tail = 0;
  for (int n = 41; n >= 9; n -= 2) tail = tail * z2.high + 1.0 / n;
  DoubleDouble p = {tail, 0};
  for (int n = 7; n >= 3; n -= 2) p = p * z2 + divide({1, 0}, {static_cast<double>(n), 0});
  return p;
}

}  // namespace detail

/// ln(x) of x > 0, normal and finite, relative error below 2^-70 (2^-60 of the low part).
PHASOR_HD inline DoubleDouble log_double_double(DoubleDouble x) {
  int exponent = 0;
  double m = std::frexp(x.high, &exponent);  // [1/2, 1)
  if (m < 0.70710678118654752) {
    m *= 2;
    --exponent;
  }
  const DoubleDouble z = detail::divide(two_sum(m, -1), two_sum(m, 1));
  const DoubleDouble z2 = z * z;
  const DoubleDouble twice = {2 * z.high, 2 * z.low};
  const DoubleDouble of_mantissa = twice + twice * (z2 * detail::atanh_series(z2));
  const DoubleDouble of_exponent = detail::ln2() * DoubleDouble{static_cast<double>(exponent), 0};
  return of_exponent + of_mantissa + DoubleDouble{x.low / x.high, 0};  // ln(high + low) - ln(high), to the first order
}

/// ln(1 + a b) of a, b >= 0, finite. Relative error below 2^-70, or where the product underflows, that of it.
PHASOR_HD inline DoubleDouble log1p_of_product(double a, double b) {
  const double rough = a * b;
  if (rough < 0x1p-60) return {rough, 0};                                                // and 0, and what underflows
  if (!(rough < 0x1p900)) return log_double_double({a, 0}) + log_double_double({b, 0});  // Dekker's product would overflow
  const DoubleDouble x = two_product(a, b);
  if (rough > 0x1p-25) return log_double_double(x + DoubleDouble{1, 0});
  const DoubleDouble tail = {x.high * (x.high * (1.0 / 3)), 0};  // x - x^2/2 + x^3/3; 1 + x would lose the bits of x
  return x + x * (DoubleDouble{-0.5 * x.high, -0.5 * x.low} + tail);
}

/// factor e^x, rounded once: before that the relative error is below 2^-62, but where float64 over- or underflows.
PHASOR_HD inline double exp_of(DoubleDouble x, double factor = 1) {
  if (!(x.high < 710)) return x.high > 0 ? factor * HUGE_VAL : x.high;  // NaN stays
  if (x.high < -746) return 0;
  const double n = std::nearbyint(x.high * 0x1.71547652b82fep+0);
  const DoubleDouble r = x + -(detail::ln2() * DoubleDouble{n, 0});
  double tail = 1;
  for (int k = 17; k >= 9; --k) tail = 1 + tail * r.high / k;
  DoubleDouble p = {tail, 0};
  for (int k = 8; k >= 1; --k) p = DoubleDouble{1, 0} + detail::divide(p * r, {static_cast<double>(k), 0});
  return std::ldexp((p * DoubleDouble{factor, 0}).high, static_cast<int>(n));
}

/// 1 / (1 + e^-x).
PHASOR_HD inline double sigmoid(double x) {
  const double e = exp_of({-std::fabs(x), 0});
  return x < 0 ? e / (1 + e) : 1 / (1 + e);
}

/// A float32 on the way to one of fewer bits: inexact values get an odd last bit, so that the second rounding is the only one.
PHASOR_HD inline float round_to_odd(double x) {
  const float nearest = static_cast<float>(x);
  if (static_cast<double>(nearest) == x || std::isnan(x)) return nearest;
  const bool away = std::fabs(static_cast<double>(nearest)) > std::fabs(x);
  return bit_cast<float>((bit_cast<u32>(nearest) - (away ? 1 : 0)) | 1);
}

/// The nearest float16 and bfloat16 of a float64, as their bits.
PHASOR_HD inline std::uint16_t f16_of(double x) { return static_cast<std::uint16_t>(narrow_f16(One<float>(), round_to_odd(x))); }
PHASOR_HD inline std::uint16_t bf16_of(double x) { return static_cast<std::uint16_t>(narrow_bf16(One<float>(), round_to_odd(x))); }

}  // namespace phasor::math
