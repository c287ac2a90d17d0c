// SPDX-License-Identifier: Apache-2.0
// What the references of these tests lean on: a long double wider than double, and elementary functions in all of it.
#include "wide.hpp"

#include <gtest/gtest.h>

#include <cfloat>

namespace phasor::test {
namespace {

// x86-64 has 64 bits of mantissa, aarch64 Linux and WebAssembly 113. With the 53 of a double, what the references decide (how a row rounds
// to float32) they would decide wrongly once in some thousand values: that would be no verdict on the library.
static_assert(LDBL_MANT_DIG >= 64, "the references of these tests want a long double of 64 bits of mantissa or more");

/// Known digits, to some ulps of 64 bits: a libm whose long double functions are those of double is 2^10 times as far off.
TEST(wide, functions_have_all_the_bits) {
  const auto near = [](long double is, long double wanted) { EXPECT_LE(std::fabs(is / wanted - 1), 8 * 0x1p-64L) << wanted; };
  near(wide_exp(1), 2.718281828459045235360287471352662497757L);
  near(wide_exp(-3.25L), 0.03877420783172200988689983526759614326014L);
  near(wide_log(10), 2.302585092994045684017991454684364207601L);
  near(wide_log1p(0.5L), 0.4054651081081643819780131154643491365720L);
  near(wide_pow(10000, -0.75L), 0.001L);
  near(wide_pow(3, 0.5L), 1.732050807568877293527446341505872366943L);
  near(std::cos(1.0L), 0.5403023058681397174009366074429766037323L);
  near(std::sin(100.0L), -0.5063656411097587936565576104597854320650L);
}

}  // namespace
}  // namespace phasor::test
