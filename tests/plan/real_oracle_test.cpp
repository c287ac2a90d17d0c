// SPDX-License-Identifier: Apache-2.0
// The functions on the plan's high-precision number against MPFR: the bounds that plan/real.hpp promises.
#include "plan/real.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "plan/mpfr_real.hpp"

namespace phasor::test {
namespace {

using oracle::MpfrReal;
using plan::Real;

/// The same number, 32 bits of the mantissa at a time: a decimal string would be inexact and turn ties into near ties.
MpfrReal exactly(const Real& x) {
  int exponent = 0;
  Real rest = frexp(x, &exponent);
  MpfrReal r;
  for (int i = 1; i <= 10; ++i) {
    rest = ldexp(rest, 32);
    const Real chunk = trunc(rest);
    rest -= chunk;
    MpfrReal part(static_cast<double>(chunk));
    mpfr_mul_2si(part.get(), part.get(), exponent - 32 * i, MPFR_RNDN);
    r = r + part;
  }
  return r;
}

/// log2 of |a - b|.
double error_bits(const MpfrReal& a, const MpfrReal& b) {
  MpfrReal d = a - b;
  if (mpfr_zero_p(d.get())) return -1e9;
  mpfr_abs(d.get(), d.get(), MPFR_RNDN);
  mpfr_log2(d.get(), d.get(), MPFR_RNDN);
  return d.nearest_double();
}

double draw(std::mt19937_64& bits, double from, double to) { return from + (to - from) * static_cast<double>(bits() >> 11) * 0x1p-53; }

TEST(RealOracle, inverse_root_keeps_310_bits) {
  std::mt19937_64 bits(1);
  double worst = -1e9;
  for (int n = 0; n < 300; ++n) {
    const double x = std::exp2(draw(bits, -1000, 1000));
    const auto root = static_cast<std::int64_t>(std::exp2(draw(bits, 0, 20)));
    const MpfrReal truth = oracle::power(x, MpfrReal(-1) / MpfrReal::of_integer(root));
    worst = std::max(worst, error_bits(exactly(plan::inverse_root(x, root)) / truth, 1));
  }
  EXPECT_LT(worst, -310);
}

TEST(RealOracle, natural_log_is_off_by_less_than_2_to_minus_295) {
  std::mt19937_64 bits(2);
  double worst = -1e9;
  for (int n = 0; n < 300; ++n) {
    const double x = n % 3 == 0 ? 1 + draw(bits, -1e-6, 1e-6) : std::exp2(draw(bits, n % 3 == 1 ? -1000 : -4, n % 3 == 1 ? 1000 : 4));
    worst = std::max(worst, error_bits(exactly(plan::natural_log(x)), oracle::log_of(x)));
  }
  EXPECT_LT(worst, -295);
  EXPECT_EQ(plan::natural_log(1), 0);
}

TEST(RealOracle, exponential_keeps_270_bits) {
  std::mt19937_64 bits(3);
  double worst = -1e9;
  for (int n = 0; n < 300; ++n) {
    const double x = (n % 2 == 0 ? 1 : -1) * std::exp2(draw(bits, -60, 20));
    worst = std::max(worst, error_bits(exactly(plan::exponential(x)) / oracle::exp_of(x), 1));
  }
  EXPECT_LT(worst, -270);
  EXPECT_EQ(plan::exponential(0), 1);
  EXPECT_EQ(plan::exponential(-0x1p21), 0);
  EXPECT_EQ(plan::exponential(-1e300), 0);
}

TEST(RealOracle, nearest_double_rounds_once_subnormals_too) {
  std::mt19937_64 bits(4);
  for (int n = 0; n < 20000; ++n) {
    // A float64, the midpoint above it, or either moved by 2^-200 of itself: ties and near ties, down to the smallest subnormal.
    const double x = std::exp2(draw(bits, -1080, n % 2 == 0 ? -1015 : 100)) * (n % 4 < 2 ? 1 : -1);
    const double next = std::nextafter(x, n % 4 < 2 ? 1e300 : -1e300);
    const Real middle = (Real(x) + Real(next)) / 2;
    for (const int side : {-1, 0, 1}) {
      const Real y = middle + middle * ldexp(Real(side), -200);
      ASSERT_EQ(plan::nearest_double(y), exactly(y).nearest_double()) << n << " " << side;
    }
  }
}

}  // namespace
}  // namespace phasor::test
