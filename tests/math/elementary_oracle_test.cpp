// SPDX-License-Identifier: Apache-2.0
// Logarithm, exponential and sigmoid of float64 against MPFR: random arguments over the whole range, and the ends of it.
#include "math/elementary.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "plan/mpfr_real.hpp"

namespace phasor::math {
namespace {

using oracle::MpfrReal;

MpfrReal sum(DoubleDouble x) { return MpfrReal(x.high) + MpfrReal(x.low); }

double relative_error(DoubleDouble is, const MpfrReal& truth) { return std::fabs(((sum(is) - truth) / truth).nearest_double()); }

/// Distance from the truth in ulps of it; the truth is a normal float64.
double ulps(double is, const MpfrReal& truth) {
  if (is == truth.nearest_double()) return 0;  // next to a power of two the ulps on its sides differ
  const double nearest = std::fabs(truth.nearest_double());
  const double ulp = nearest - std::nextafter(nearest, 0);
  return std::fabs((MpfrReal(is) - truth).nearest_double()) / ulp;
}

class Numbers {
 public:
  double mantissa() { return 1 + static_cast<double>(bits_() >> 12) * 0x1p-52; }
  double any(int low, int high) { return std::ldexp(mantissa(), std::uniform_int_distribution<int>(low, high)(bits_)); }
  double between(double low, double high) { return low + (high - low) * (mantissa() - 1); }

 private:
  std::mt19937_64 bits_{20};
};

TEST(elementary, log_keeps_70_bits_at_every_magnitude_and_next_to_one) {
  Numbers numbers;
  for (int i = 0; i < 20000; ++i) {
    for (const double x : {numbers.any(-1000, 1000), numbers.any(-1, 0), 1 + std::ldexp(numbers.mantissa(), -(i % 50) - 1)}) {
      if (x == 1) continue;
      ASSERT_LE(relative_error(log_double_double({x, 0}), oracle::log_of(MpfrReal(x))), 0x1p-70) << x;
    }
  }
  EXPECT_EQ(log_double_double({1, 0}).high, 0);
}

TEST(elementary, log1p_of_a_product_is_rounded_once) {
  Numbers numbers;
  for (int i = 0; i < 20000; ++i) {
    const double a = numbers.any(-256, 256);
    const double b = numbers.any(0, 62);
    const MpfrReal truth = oracle::unary(mpfr_log1p, MpfrReal(a) * MpfrReal(b));
    ASSERT_LE(ulps(log1p_of_product(a, b).high, truth), 0.501) << a << " " << b;
  }
  EXPECT_EQ(log1p_of_product(0, 5).high, 0);
}

TEST(elementary, exp_is_rounded_once) {
  Numbers numbers;
  for (int i = 0; i < 20000; ++i) {
    for (const double x : {numbers.between(-700, 700), numbers.between(-1, 1), numbers.any(-60, -2)}) {
      ASSERT_LE(ulps(exp_of({x, 0}), oracle::exp_of(MpfrReal(x))), 0.501) << x;
      ASSERT_LE(ulps(exp_of({x, 0}, 3.7), MpfrReal(3.7) * oracle::exp_of(MpfrReal(x))), 0.501) << x;
    }
  }
  EXPECT_EQ(exp_of({0, 0}), 1);
  EXPECT_EQ(exp_of({1000, 0}), std::numeric_limits<double>::infinity());
  EXPECT_EQ(exp_of({-1000, 0}), 0);
  EXPECT_TRUE(std::isnan(exp_of({std::numeric_limits<double>::quiet_NaN(), 0})));
}

TEST(elementary, sigmoid_is_within_two_ulps) {
  Numbers numbers;
  for (int i = 0; i < 20000; ++i) {
    const double x = numbers.between(-700, 700);
    ASSERT_LE(ulps(sigmoid(x), MpfrReal(1) / (MpfrReal(1) + oracle::exp_of(MpfrReal(-x)))), 2) << x;
  }
  EXPECT_EQ(sigmoid(0), 0.5);
  EXPECT_EQ(sigmoid(-1000), 0);
  EXPECT_EQ(sigmoid(1000), 1);
}

}  // namespace
}  // namespace phasor::math
