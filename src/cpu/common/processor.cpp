// SPDX-License-Identifier: Apache-2.0
// The processor is asked by its own instructions. Compilers can ask it, too (__builtin_cpu_supports), by a part of their run-time library
// that zig, which compiles the wheels, does not have.
#include "cpu/common/processor.hpp"

#if defined(__x86_64__)
#include <cpuid.h>

#include <cstdint>

namespace phasor::cpu {
namespace {

constexpr std::uint32_t bit(int n) { return std::uint32_t{1} << n; }

/// Words of CPUID by their names in Intel's manual, and the registers that the system keeps for a thread that waits.
struct Processor {
  std::uint32_t leaf_1_ecx = 0;
  std::uint32_t leaf_7_ebx = 0;
  std::uint32_t leaf_7_edx = 0;
  std::uint32_t saved = 0;
};

Processor asked() {
  Processor found;
  std::uint32_t a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid(1, &a, &b, &c, &d) == 0) return found;
  found.leaf_1_ecx = c;
  if ((c & bit(27)) != 0) {  // OSXSAVE: the system says what it saves
    std::uint32_t high = 0;
    asm volatile("xgetbv" : "=a"(found.saved), "=d"(high) : "c"(0));
  }
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return found;
  found.leaf_7_ebx = b;
  found.leaf_7_edx = d;
  return found;
}

const Processor& processor() {
  static const Processor found = asked();
  return found;
}

constexpr bool has(std::uint32_t word, std::uint32_t bits) { return (word & bits) == bits; }

}  // namespace

bool has_avx2() {
  const Processor& own = processor();
  return has(own.leaf_1_ecx, bit(12) | bit(28) | bit(29)) &&  // FMA, AVX, F16C
         has(own.leaf_7_ebx, bit(5) | bit(8)) &&              // AVX2, BMI2
         has(own.saved, 0x6);                                 // registers of SSE and AVX
}

bool has_avx512() {
  const Processor& own = processor();
  return has_avx2() && has(own.leaf_7_ebx, bit(16) | bit(17) | bit(30) | bit(31)) &&  // F, DQ, BW, VL
         has(own.saved, 0xe6);                                                        // its masks and both kinds of its registers, too
}

bool has_amx() {
  const Processor& own = processor();
  return has_avx512() && has(own.leaf_7_edx, bit(22) | bit(24)) &&  // products of bfloat16, tiles
         has(own.saved, bit(17) | bit(18));                         // configuration and data of tiles
}

}  // namespace phasor::cpu
#endif
