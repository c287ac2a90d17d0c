// SPDX-License-Identifier: Apache-2.0
// Roots, geometric ladders and roundings of the high-precision number of plans.
#include "plan/real.hpp"

#include <algorithm>
#include <boost/math/constants/constants.hpp>
#include <cmath>

namespace phasor::plan {
namespace {

constexpr int real_bits = 320;
constexpr int fraction_bits = 192;

/// x^n, n >= 1: about log2(n) squarings and as many products at most.
Real integer_power(Real x, std::int64_t n) {
  while (n % 2 == 0) {
    x *= x;
    n /= 2;
  }
  Real y = x;
  while ((n /= 2) > 0) {
    x *= x;
    if (n % 2 != 0) y *= x;
  }
  return y;
}

/// x^(-1/n) to some 40 bits; n >= 2 keeps it inside the range of float64 for every x < 2^2000.
double inverse_root_seed(const Real& x, std::int64_t n) {
  int exponent = 0;
  const double mantissa = static_cast<double>(frexp(x, &exponent));
  return std::exp2(-(std::log2(mantissa) + exponent) / static_cast<double>(n));
}

}  // namespace

const Real& radians_per_turn() {
  static const Real value = boost::math::constants::two_pi<Real>();
  return value;
}

const Real& turns_per_radian() {
  static const Real value = 1 / radians_per_turn();
  return value;
}

// Newton on y^-n = x: y += y (1 - x y^n) / n, which turns a relative error e into (n + 1) e^2 / 2. Boost's pow costs 40 to 100 us, this 4
// to 6. The last correction is small, so what y^n accumulates (n 2^-319) is divided by n again before it reaches y.
Real inverse_root(const Real& x, std::int64_t n) {
  if (n == 1) return 1 / x;
  Real y = inverse_root_seed(x, n);
  const Real inverse_n = Real(1) / n;
  // n e < 2^-164 squares to an error below 2^-328 / n.
  static const Real small = ldexp(Real(1), -164);
  for (int i = 0; i < 8; ++i) {
    const Real residual = 1 - x * integer_power(y, n);  // n e
    y += y * residual * inverse_n;
    if (abs(residual) < small) break;
  }
  return y;
}

// ln(x) = -n ln(y), y = x^(-1/n), which is so near to 1 that 2 atanh((y - 1) / (y + 1)) needs a dozen terms. The root's error times n
// is what is lost: 16 bits.
Real natural_log(const Real& x) {
  constexpr int doublings = 16;
  static const Real small = ldexp(Real(1), -real_bits - doublings);
  const Real y = inverse_root(x, std::int64_t{1} << doublings);
  const Real z = (y - 1) / (y + 1);
  const Real z2 = z * z;
  Real sum = z;
  Real power = z;
  for (int k = 3; abs(power) > small; k += 2) {
    power *= z2;
    sum += power / k;
  }
  return ldexp(sum, doublings + 1) * -1;
}

// e^x = (e^(x / 2^k))^(2^k): a short Taylor series, then k squarings, each of which doubles the relative error; k <= 20 + 24.
Real exponential(const Real& x) {
  if (x == 0) return 1;
  int exponent = 0;
  (void)frexp(x, &exponent);
  if (x < 0 && exponent > 20) return 0;
  const int halvings = std::max(0, exponent + 24);
  const Real reduced = ldexp(x, -halvings);
  Real sum = 1;
  Real term = 1;
  for (int k = 1; k <= 14; ++k) {  // 2^(-24 * 15) / 15! is below 2^-400
    term *= reduced;
    term /= k;
    sum += term;
  }
  for (int i = 0; i < halvings; ++i) sum *= sum;
  return sum;
}

std::vector<Real> geometric(const Real& start, const Real& ratio, std::int64_t n) {
  std::vector<Real> terms;
  terms.reserve(static_cast<std::size_t>(n));
  Real term = start;
  for (std::int64_t i = 0; i < n; ++i) {
    terms.push_back(term);
    term *= ratio;
  }
  return terms;
}

double nearest_double(const Real& x) { return static_cast<double>(x); }

math::Step step_of(const Real& frequency) { return step_of_turns(frequency * turns_per_radian()); }

// Reads the mantissa itself (value = bits 2^(exponent - 319)): Boost's conversion to an integer costs 1 us, this 0.2.
math::Step step_of_turns(const Real& turns) {
  if (turns == 0) return {};
  using Integer = boost::multiprecision::number<Real::backend_type::rep_type, boost::multiprecision::et_off>;
  Integer magnitude(turns.backend().bits());
  const auto shift = real_bits - 1 - fraction_bits - static_cast<std::int64_t>(turns.backend().exponent());  // > 64, since turns < 2^62
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
  if (turns < 0) {  // two's complement of all 256 bits: floor, and the complemented fraction
    math::u64 carry = 1;
    for (math::u64& limb : limbs) {
      limb = ~limb + carry;
      carry = carry != 0 && limb == 0 ? 1 : 0;
    }
  }
  return {{limbs[0], limbs[1], limbs[2]}, static_cast<math::i64>(limbs[3])};
}

}  // namespace phasor::plan
