// SPDX-License-Identifier: Apache-2.0
// What we find out about an x86-64 processor is what the compiler's own run-time library does.
#include "cpu/common/processor.hpp"

#include <gtest/gtest.h>

#if defined(__x86_64__)
namespace phasor::cpu {
namespace {

TEST(Processor, has_what_the_compiler_finds) {
  const bool avx2 =
      __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("f16c");
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
                      __builtin_cpu_supports("avx512bw");
  EXPECT_EQ(has_avx2(), avx2);
  EXPECT_EQ(has_avx512(), avx2 && avx512);
}

TEST(Processor, one_that_has_more_has_less) {
  EXPECT_LE(has_avx512(), has_avx2());
  EXPECT_LE(has_amx(), has_avx512());
}

}  // namespace
}  // namespace phasor::cpu
#endif
