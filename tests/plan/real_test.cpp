// SPDX-License-Identifier: Apache-2.0
// Real against the Boost number behind it: every operation gives the same 320 bits, exponent and sign.
#include "plan/real.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <boost/multiprecision/cpp_bin_float.hpp>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <type_traits>
#include <vector>

namespace phasor::test {
namespace {

using plan::Real;
using Number = boost::multiprecision::number<boost::multiprecision::cpp_bin_float<320, boost::multiprecision::digit_base_2>,
                                             boost::multiprecision::et_off>;

struct Both {
  Real real;
  Number number;
};

::testing::AssertionResult same(const Real& real, const Number& number) {
  std::array<std::uint64_t, 5> words{};
  const auto& bits = number.backend().bits();
  std::copy(bits.limbs(), bits.limbs() + bits.size(), words.begin());
  const Real::Parts& parts = real.parts();
  if (std::equal(words.begin(), words.end(), parts.mantissa) && parts.exponent == number.backend().exponent() &&
      parts.negative == number.backend().sign()) {
    return ::testing::AssertionSuccess();
  }
  return ::testing::AssertionFailure() << real.str(100) << " is not " << number.str(100);
}

/// The same but for the sign of 0 and NaN, which in Boost depends on whether an operand is a temporary or a whole number.
::testing::AssertionResult same_value(const Real& real, const Number& number) {
  if (number == 0 && real == 0) return ::testing::AssertionSuccess();
  if (isnan(number) && real != real) return ::testing::AssertionSuccess();
  return same(real, number);
}

/// Numbers of 320 bits and of few, of both signs, whole ones, and what is not finite.
std::vector<Both> samples() {
  std::vector<Both> list;
  const double infinity = std::numeric_limits<double>::infinity();
  for (const double x : {0.0, -0.0, 1.0, -1.0, 0.5, 3.0, -7.25, 0x1p62, -0x1p63, 5e-324, 1.7e308, infinity, -infinity, std::nan("")}) {
    list.push_back({Real(x), Number(x)});
  }
  std::mt19937_64 bits(5);
  for (int i = 0; i < 40; ++i) {
    const auto a = static_cast<std::int64_t>(bits() >> (i % 40)) * (i % 2 == 0 ? 1 : -1);
    const auto b = static_cast<std::int64_t>(bits() >> 12) + 1;
    list.push_back({Real(a) / Real(b), Number(a) / Number(b)});
    list.push_back({Real(a), Number(a)});
  }
  return list;
}

void expect_same_functions(const Both& x) {
  EXPECT_TRUE(same(-x.real, -x.number));
  EXPECT_TRUE(same(abs(x.real), abs(x.number)));
  EXPECT_EQ(static_cast<float>(x.real) == static_cast<float>(x.number), !isnan(x.number));
  EXPECT_EQ(static_cast<double>(x.real) == static_cast<double>(x.number), !isnan(x.number));
  EXPECT_EQ(x.real.str(6), x.number.str(6));
  if (x.number >= 0) {
    EXPECT_TRUE(same(sqrt(x.real), sqrt(x.number)));
  }
  if (!isfinite(x.number)) return;
  EXPECT_EQ(static_cast<std::int64_t>(x.real), static_cast<std::int64_t>(x.number));
  EXPECT_TRUE(same(floor(x.real), floor(x.number)));
  EXPECT_TRUE(same(ceil(x.real), ceil(x.number)));
  EXPECT_TRUE(same(trunc(x.real), trunc(x.number)));
  int exponent = 0;
  int wanted = 0;
  EXPECT_TRUE(same(frexp(x.real, &exponent), frexp(x.number, &wanted)));
  EXPECT_EQ(exponent, wanted);
  EXPECT_TRUE(same(ldexp(x.real, -77), ldexp(x.number, -77)));
}

void expect_same_operators(const Both& x, const Both& y) {
  EXPECT_TRUE(same(x.real + y.real, x.number + y.number));
  EXPECT_TRUE(same(x.real - y.real, x.number - y.number));
  EXPECT_TRUE(same(x.real * y.real, x.number * y.number));
  EXPECT_TRUE(same(x.real / y.real, x.number / y.number));
  EXPECT_EQ(x.real == y.real, x.number == y.number);
  EXPECT_EQ(x.real != y.real, x.number != y.number);
  EXPECT_EQ(x.real < y.real, x.number < y.number);
  EXPECT_EQ(x.real <= y.real, x.number <= y.number);
  EXPECT_EQ(x.real > y.real, x.number > y.number);
  EXPECT_EQ(x.real >= y.real, x.number >= y.number);
}

template <class T>
void expect_same_operators_with(const Both& x, T y) {
  EXPECT_TRUE(same_value(x.real + y, x.number + y));
  EXPECT_TRUE(same_value(y - x.real, y - x.number));
  EXPECT_TRUE(same_value(x.real * y, x.number * y));
  EXPECT_TRUE(same_value(y * x.real, y * x.number));
  EXPECT_TRUE(same_value(x.real / y, x.number / y));
  EXPECT_TRUE(same_value(y / x.real, y / x.number));
  Real real = x.real;
  Number number = x.number;
  EXPECT_TRUE(same_value(real += y, number += y));
  EXPECT_TRUE(same_value(real *= y, number *= y));
  EXPECT_TRUE(same_value(real -= y, number -= y));
  EXPECT_TRUE(same_value(real /= y, number /= y));
  EXPECT_EQ(x.real < y, x.number < y);
  EXPECT_EQ(y == x.real, y == x.number);
}

TEST(Real, has_the_bits_of_boosts_number) {
  const std::vector<Both> list = samples();
  for (const Both& x : list) {
    EXPECT_TRUE(same(x.real, x.number));
    expect_same_functions(x);
    for (const Both& y : list) expect_same_operators(x, y);
  }
  EXPECT_TRUE(same(Real(), Number()));
}

TEST(Real, takes_whole_numbers_and_float64_as_they_are) {
  for (const Both& x : samples()) {
    for (const int y : {0, 1, -1, 3, -1000, std::numeric_limits<int>::min()}) expect_same_operators_with(x, y);
    for (const std::int64_t y : {std::int64_t{7}, std::numeric_limits<std::int64_t>::max(), std::numeric_limits<std::int64_t>::min()}) {
      expect_same_operators_with(x, y);
    }
    for (const double y : {0.5, -0.1, 1e300, 5e-324}) expect_same_operators_with(x, y);
  }
}

#if !defined(__EMSCRIPTEN__)  // its clang 14 takes the question for the use of a deleted function
template <class T>
concept HasFloatFormulas = requires(T x) { plan::exp(x); } || requires(T x) { plan::log(x); } || requires(T x) { plan::sqrt(x); } ||
                           requires(T x) { plan::pow(x, x); };
static_assert(!HasFloatFormulas<double> && !HasFloatFormulas<float> && !HasFloatFormulas<int>);
#endif
static_assert(!std::is_convertible_v<Real, double> && !std::is_convertible_v<Real, std::int64_t>);
static_assert(!std::is_constructible_v<Real, std::uint64_t>);  // it would not fit
static_assert(std::is_trivially_copyable_v<Real>);

}  // namespace
}  // namespace phasor::test
