// SPDX-License-Identifier: Apache-2.0
// Real: the high-precision number that plans are computed in, and the few functions on it that Boost has not or has too slowly. Its
// arithmetic is Boost.Multiprecision's, behind real.cpp: reading Boost here would cost each of twenty sources 5 s.
#pragma once

#include <compare>
#include <concepts>
#include <cstdint>
#include <string>
#include <vector>

#include "math/phase/phase.hpp"

namespace phasor::plan {

/// 320 bits: a step keeps 192 bits below the point and up to 62 above it, so some 60 bits guard every rounding. Every operation rounds to
/// nearest, ties to even. Does not allocate.
class Real {
 public:
  /// The value is mantissa 2^(exponent - 319), the mantissa's lowest word first and its highest bit 1. 0, infinity and NaN are Boost's
  /// exponents.
  struct Parts {
    std::uint64_t mantissa[5];
    std::int32_t exponent;
    bool negative;
  };

  Real();                                 // 0
  Real(int x) : Real(std::int64_t{x}) {}  // NOLINT(google-explicit-constructor)
  Real(std::int64_t x);                   // NOLINT(google-explicit-constructor)
  Real(double x);                         // NOLINT(google-explicit-constructor)
  explicit Real(const Parts& parts) : parts_(parts) {}

  explicit operator double() const;
  explicit operator float() const;
  /// Towards 0; the nearest end of the range where x is outside.
  explicit operator std::int64_t() const;
  /// In decimal, so many significant digits.
  std::string str(int digits) const;
  const Parts& parts() const { return parts_; }

  friend Real operator-(const Real& x);
  friend Real operator+(const Real& x, const Real& y);
  friend Real operator-(const Real& x, const Real& y);
  friend Real operator*(const Real& x, const Real& y);
  friend Real operator/(const Real& x, const Real& y);
  // By a whole number, which is faster than by its Real. Templates, so that a float64 is not cut to one.
  template <std::signed_integral N>
  friend Real operator*(const Real& x, N n) {
    return x.times(n);
  }
  template <std::signed_integral N>
  friend Real operator/(const Real& x, N n) {
    return x.over(n);
  }
  Real& operator+=(const Real& y) { return *this = *this + y; }
  Real& operator*=(const Real& y) { return *this = *this * y; }
  Real& operator-=(const Real& y) { return *this = *this - y; }
  Real& operator/=(const Real& y) { return *this = *this / y; }

  friend bool operator==(const Real& x, const Real& y) { return (x <=> y) == 0; }
  friend std::partial_ordering operator<=>(const Real& x, const Real& y);

  // Friends, found by their argument only: floor(1.5) in a plan stays what it is.
  friend Real abs(const Real& x);
  friend Real ceil(const Real& x);
  friend Real floor(const Real& x);
  friend Real trunc(const Real& x);
  friend Real sqrt(const Real& x);
  friend Real ldexp(const Real& x, int exponent);
  friend Real frexp(const Real& x, int* exponent);

 private:
  Real times(std::int64_t n) const;
  Real over(std::int64_t n) const;

  Parts parts_;
};

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

/// The multiple of 2^-192 turns nearest to a frequency in radians per position; needs |frequency| < 2^64.
math::Step step_of(const Real& frequency);
/// The same of turns a position; needs |turns| < 2^62.
math::Step step_of_turns(const Real& turns);

}  // namespace phasor::plan
