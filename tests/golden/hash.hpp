// SPDX-License-Identifier: Apache-2.0
// The hash of the rotation in tests/cpu/hash_job.hpp: one constant for every target, compiler, CPU, WebAssembly and CUDA. Made by
// tests/cpu/hash_test.cpp on x86-64; rows and rotation it covers are proven by the oracle tests. Never changed to make a test pass.
#pragma once

#include <cstdint>

namespace phasor::golden {

inline constexpr std::uint64_t kRotationHash = 0x43D8FB9ABAF84C28ULL;

// Those of tests/cpu/hash_more_test.cpp, made on aarch64 by the kernels of commit a730a1a (NEON and plain C++), which were rewritten since.
inline constexpr std::uint64_t kAxesHash = 0xB72CD97288D6FA3DULL;
inline constexpr std::uint64_t kProfilesHash = 0x4B5029F7FD109952ULL;
inline constexpr std::uint64_t kTablesHash = 0x5556BACA96CAD3E7ULL;
inline constexpr std::uint64_t kMovesHash = 0xA1F31C3B28154C0DULL;
inline constexpr std::uint64_t kAdditiveHash = 0xA9D5A74F7EFFAAE3ULL;

}  // namespace phasor::golden
