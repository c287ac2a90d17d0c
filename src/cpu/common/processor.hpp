// SPDX-License-Identifier: Apache-2.0
// What an x86-64 processor can do, and the system lets it.
#pragma once

namespace phasor::cpu {

#if defined(__x86_64__)
/// With FMA, BMI2 and conversions of float16.
bool has_avx2();
/// F, VL, DQ and BW, and AVX2.
bool has_avx512();
/// The matrix unit with bfloat16, and AVX-512. Linux wants to be asked before it is used (cpu/attention/amx).
bool has_amx();
#endif

}  // namespace phasor::cpu
