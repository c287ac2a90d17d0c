// SPDX-License-Identifier: Apache-2.0
// The hash of the rotation in tests/cpu/hash_job.hpp: one constant for every target, compiler, CPU, WebAssembly and CUDA. Made by
// tests/cpu/hash_test.cpp on x86-64; rows and rotation it covers are proven by the oracle tests. Never changed to make a test pass.
#pragma once

#include <cstdint>

namespace phasor::golden {

inline constexpr std::uint64_t kRotationHash = 0x43D8FB9ABAF84C28ULL;

}  // namespace phasor::golden
