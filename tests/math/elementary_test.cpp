// SPDX-License-Identifier: Apache-2.0
// One rounding from float64 to float16 and bfloat16, where a float32 between would make two.
#include "math/elementary.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "reference.hpp"
#include "tensor.hpp"

namespace phasor::math {
namespace {

/// Midpoints of neighbours, and float64 a hair beside them: float32 would round those onto the midpoint.
template <class Round>
void expect_one_rounding(const reference::Format& format, Round round) {
  const std::vector<double> list = reference::magnitudes(format);
  for (std::size_t code = 0; code + 1 < list.size(); code += 7) {
    const double middle = 0.5 * (list[code] + list[code + 1]);
    for (const double x : {list[code], middle, std::nextafter(middle, 0.0), std::nextafter(middle, 1e300), middle * (1 - 0x1p-40), -middle,
                           -std::nextafter(middle, 0.0)}) {
      ASSERT_EQ(round(x), reference::nearest_code(format, list, x)) << x;
    }
  }
  test::Random random(3);
  for (int i = 0; i < 100000; ++i) {
    const double x = std::ldexp(static_cast<double>(static_cast<std::int64_t>(random.bits())), -63 - static_cast<int>(random.bits() % 40));
    ASSERT_EQ(round(x), reference::nearest_code(format, list, x)) << x;
  }
}

TEST(elementary_rounding, float64_to_float16_rounds_once) { expect_one_rounding(reference::f16_format, f16_of); }
TEST(elementary_rounding, float64_to_bfloat16_rounds_once) { expect_one_rounding(reference::bf16_format, bf16_of); }

TEST(elementary_rounding, keeps_infinities_nan_and_what_is_too_large_or_too_small) {
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(f16_of(infinity), 0x7c00);
  EXPECT_EQ(f16_of(-1e300), 0xfc00);
  EXPECT_EQ(f16_of(65519.999999999), 0x7bff);
  EXPECT_EQ(f16_of(65520), 0x7c00);
  EXPECT_EQ(bf16_of(infinity), 0x7f80);
  EXPECT_EQ(bf16_of(1e300), 0x7f80);
  EXPECT_EQ(bf16_of(1e-300), 0);
  EXPECT_EQ(bf16_of(-1e-300), 0x8000);
  EXPECT_GT(f16_of(std::numeric_limits<double>::quiet_NaN()) & 0x7fff, 0x7c00);
  EXPECT_GT(bf16_of(std::numeric_limits<double>::quiet_NaN()) & 0x7fff, 0x7f80);
}

}  // namespace
}  // namespace phasor::math
