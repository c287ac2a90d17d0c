// SPDX-License-Identifier: Apache-2.0
// What lets one source be a host function and a CUDA device function, and the integer types of exact phases.
#pragma once

#include <cstdint>

#ifdef __CUDACC__
#define PHASOR_HD __host__ __device__
#define PHASOR_INLINE __host__ __device__ inline
#else
#define PHASOR_HD
#define PHASOR_INLINE inline __attribute__((always_inline))  // registers are not to go through memory
#endif

namespace phasor::math {

using u32 = std::uint32_t;
using u64 = std::uint64_t;
using i64 = std::int64_t;
__extension__ typedef unsigned __int128 u128;

/// std::bit_cast, which the libc++ of Emscripten 3.1 lacks and nvcc would take for a host function.
template <class To, class From>
PHASOR_HD constexpr To bit_cast(From from) {
  static_assert(sizeof(To) == sizeof(From));
  return __builtin_bit_cast(To, from);
}

}  // namespace phasor::math
