// SPDX-License-Identifier: Apache-2.0
// What lets one source be a host function and a CUDA device function, and the integer types of exact phases.
#pragma once

#include <bit>
#include <cstdint>

#ifdef __CUDACC__  // nvcc needs --expt-relaxed-constexpr for std::bit_cast
#define PHASOR_HD __host__ __device__
#else
#define PHASOR_HD
#endif

namespace phasor::math {

using u32 = std::uint32_t;
using u64 = std::uint64_t;
using i64 = std::int64_t;
__extension__ typedef unsigned __int128 u128;

}  // namespace phasor::math
