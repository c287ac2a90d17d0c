// SPDX-License-Identifier: Apache-2.0
// Real's arithmetic, which is Boost's; roots, geometric ladders and roundings. No other source is to include Boost's floats: they take 5 s
// to compile.
#include "plan/real.hpp"

#include <algorithm>
#include <bit>
#include <boost/math/constants/constants.hpp>
#include <boost/multiprecision/cpp_bin_float.hpp>
#include <cmath>
#include <iterator>

namespace phasor::plan {
namespace {

constexpr int real_bits = 320;
constexpr int fraction_bits = 192;

using Number = boost::multiprecision::number<boost::multiprecision::cpp_bin_float<real_bits, boost::multiprecision::digit_base_2>,
                                             boost::multiprecision::et_off>;
static_assert(sizeof(boost::multiprecision::limb_type) == sizeof(std::uint64_t));
using Backend = Number::backend_type;
static_assert(sizeof(Real::Parts::mantissa) * 8 == real_bits);

Number number_of(const Real& x) {
  const Real::Parts& parts = x.parts();
  Number y;
  auto& bits = y.backend().bits();
  constexpr unsigned limbs = real_bits / 64;
  bits.resize(limbs, limbs);
  std::copy_n(parts.mantissa, limbs, bits.limbs());
  bits.normalize();
  y.backend().exponent() = parts.exponent;
  y.backend().sign() = parts.negative;
  return y;
}

Real real_of(const Number& x) {
  Real::Parts parts{};
  const auto& bits = x.backend().bits();
  std::copy_n(bits.limbs(), bits.size(), parts.mantissa);
  parts.exponent = x.backend().exponent();
  parts.negative = x.backend().sign();
  return Real(parts);
}

int sign_of(const Real::Parts& parts) {
  if (parts.exponent == Backend::exponent_zero) return 0;
  return parts.negative ? -1 : 1;
}

/// x^n, n >= 1: about log2(n) squarings and as many products at most.
Number integer_power(Number x, std::int64_t n) {
  while (n % 2 == 0) {
    x *= x;
    n /= 2;
  }
  Number y = x;
  while ((n /= 2) > 0) {
    x *= x;
    if (n % 2 != 0) y *= x;
  }
  return y;
}

/// x^(-1/n) to some 40 bits; n >= 2 keeps it inside the range of float64 for every x < 2^2000.
double inverse_root_seed(const Number& x, std::int64_t n) {
  int exponent = 0;
  const double mantissa = static_cast<double>(frexp(x, &exponent));
  return std::exp2(-(std::log2(mantissa) + exponent) / static_cast<double>(n));
}

// Newton on y^-n = x: y += y (1 - x y^n) / n, which turns a relative error e into (n + 1) e^2 / 2. Boost's pow costs 40 to 100 us, this 4
// to 6. The last correction is small, so what y^n accumulates (n 2^-319) is divided by n again before it reaches y.
Number inverse_root(const Number& x, std::int64_t n) {
  if (n == 1) return 1 / x;
  Number y = inverse_root_seed(x, n);
  const Number inverse_n = Number(1) / n;
  // n e < 2^-164 squares to an error below 2^-328 / n.
  static const Number small = ldexp(Number(1), -164);
  for (int i = 0; i < 8; ++i) {
    const Number residual = 1 - x * integer_power(y, n);  // n e
    y += y * residual * inverse_n;
    if (abs(residual) < small) break;
  }
  return y;
}

// ln(x) = -n ln(y), y = x^(-1/n), which is so near to 1 that 2 atanh((y - 1) / (y + 1)) needs a dozen terms. The root's error times n
// is what is lost: 16 bits.
Number natural_log(const Number& x) {
  constexpr int doublings = 16;
  static const Number small = ldexp(Number(1), -real_bits - doublings);
  const Number y = inverse_root(x, std::int64_t{1} << doublings);
  const Number z = (y - 1) / (y + 1);
  const Number z2 = z * z;
  Number sum = z;
  Number power = z;
  for (int k = 3; abs(power) > small; k += 2) {
    power *= z2;
    sum += power / k;
  }
  return ldexp(sum, doublings + 1) * -1;
}

// e^x = (e^(x / 2^k))^(2^k): a short Taylor series, then k squarings, each of which doubles the relative error; k <= 20 + 24.
Number exponential(const Number& x) {
  if (x == 0) return 1;
  int exponent = 0;
  (void)frexp(x, &exponent);
  if (x < 0 && exponent > 20) return 0;
  const int halvings = std::max(0, exponent + 24);
  const Number reduced = ldexp(x, -halvings);
  Number sum = 1;
  Number term = 1;
  for (int k = 1; k <= 14; ++k) {  // 2^(-24 * 15) / 15! is below 2^-400
    term *= reduced;
    term /= k;
    sum += term;
  }
  for (int i = 0; i < halvings; ++i) sum *= sum;
  return sum;
}

}  // namespace

Real::Real() : Real(real_of(Number())) {}
Real::Real(double x) : Real(real_of(Number(x))) {}

Real::Real(std::int64_t x) : parts_{{}, Backend::exponent_zero, x < 0} {
  if (x == 0) return;
  const auto magnitude = x < 0 ? 0 - static_cast<std::uint64_t>(x) : static_cast<std::uint64_t>(x);
  const int zeros = std::countl_zero(magnitude);
  parts_.mantissa[4] = magnitude << zeros;
  parts_.exponent = 63 - zeros;
}

Real::operator double() const { return static_cast<double>(number_of(*this)); }
Real::operator float() const { return static_cast<float>(number_of(*this)); }
Real::operator std::int64_t() const { return static_cast<std::int64_t>(number_of(*this)); }
std::string Real::str(int digits) const { return number_of(*this).str(digits); }

Real Real::times(std::int64_t n) const { return real_of(number_of(*this) * n); }
Real Real::over(std::int64_t n) const { return real_of(number_of(*this) / n); }

Real operator-(const Real& x) { return real_of(-number_of(x)); }
Real operator+(const Real& x, const Real& y) { return real_of(number_of(x) + number_of(y)); }
Real operator-(const Real& x, const Real& y) { return real_of(number_of(x) - number_of(y)); }
Real operator*(const Real& x, const Real& y) { return real_of(number_of(x) * number_of(y)); }
Real operator/(const Real& x, const Real& y) { return real_of(number_of(x) / number_of(y)); }

// The exponents of infinity and NaN are above those of numbers.
std::partial_ordering operator<=>(const Real& x, const Real& y) {
  const Real::Parts& a = x.parts();
  const Real::Parts& b = y.parts();
  if (a.exponent == Backend::exponent_nan || b.exponent == Backend::exponent_nan) return std::partial_ordering::unordered;
  const int sign = sign_of(a);
  if (sign != sign_of(b)) return sign <=> sign_of(b);
  if (sign == 0) return std::partial_ordering::equivalent;
  const Real::Parts& larger = sign > 0 ? a : b;  // by magnitude, if x > y
  const Real::Parts& smaller = sign > 0 ? b : a;
  if (a.exponent != b.exponent) return larger.exponent <=> smaller.exponent;
  constexpr std::size_t words = std::size(Real::Parts{}.mantissa);
  for (std::size_t i = words; i-- > 0;) {  // the highest word is the last
    if (larger.mantissa[i] != smaller.mantissa[i]) return larger.mantissa[i] <=> smaller.mantissa[i];
  }
  return std::partial_ordering::equivalent;
}

Real abs(const Real& x) {
  Real::Parts parts = x.parts();
  parts.negative = false;
  return Real(parts);
}
Real ceil(const Real& x) { return real_of(ceil(number_of(x))); }
Real floor(const Real& x) { return real_of(floor(number_of(x))); }
Real trunc(const Real& x) { return real_of(trunc(number_of(x))); }
Real sqrt(const Real& x) { return real_of(sqrt(number_of(x))); }
Real ldexp(const Real& x, int exponent) { return real_of(ldexp(number_of(x), exponent)); }
Real frexp(const Real& x, int* exponent) { return real_of(frexp(number_of(x), exponent)); }

const Real& radians_per_turn() {
  static const Real value = real_of(boost::math::constants::two_pi<Number>());
  return value;
}

const Real& turns_per_radian() {
  static const Real value = 1 / radians_per_turn();
  return value;
}

Real inverse_root(const Real& x, std::int64_t n) { return real_of(inverse_root(number_of(x), n)); }
Real natural_log(const Real& x) { return real_of(natural_log(number_of(x))); }
Real exponential(const Real& x) { return real_of(exponential(number_of(x))); }

std::vector<Real> geometric(const Real& start, const Real& ratio, std::int64_t n) {
  std::vector<Real> terms;
  terms.reserve(static_cast<std::size_t>(n));
  Number term = number_of(start);
  const Number factor = number_of(ratio);
  for (std::int64_t i = 0; i < n; ++i) {
    terms.push_back(real_of(term));
    term *= factor;
  }
  return terms;
}

double nearest_double(const Real& x) { return static_cast<double>(x); }

math::Step step_of(const Real& frequency) { return step_of_turns(frequency * turns_per_radian()); }

// Reads the mantissa itself (value = bits 2^(exponent - 319)): Boost's conversion to an integer costs 1 us, this 0.2.
math::Step step_of_turns(const Real& turns) {
  if (turns == 0) return {};
  using Integer = boost::multiprecision::number<Backend::rep_type, boost::multiprecision::et_off>;
  Integer magnitude(number_of(turns).backend().bits());
  const auto shift = real_bits - 1 - fraction_bits - std::int64_t{turns.parts().exponent};  // > 64, since turns < 2^62
  if (shift > real_bits + 1) return {};
  magnitude >>= static_cast<unsigned>(shift - 1);
  magnitude += 1u;  // to nearest; ties away from 0 (of radians there are none: 1 / (2 pi) is irrational)
  magnitude >>= 1u;
  math::u64 limbs[4];
  static const Integer mask(~std::uint64_t{0});
  for (math::u64& limb : limbs) {
    limb = static_cast<math::u64>(Integer(magnitude & mask));
    magnitude >>= 64u;
  }
  if (turns.parts().negative) {  // two's complement of all 256 bits: floor, and the complemented fraction
    math::u64 carry = 1;
    for (math::u64& limb : limbs) {
      limb = ~limb + carry;
      carry = carry != 0 && limb == 0 ? 1 : 0;
    }
  }
  return {{limbs[0], limbs[1], limbs[2]}, static_cast<math::i64>(limbs[3])};
}

}  // namespace phasor::plan
