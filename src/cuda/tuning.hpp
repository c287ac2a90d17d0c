// SPDX-License-Identifier: Apache-2.0
// Numbers that speed depends on and results do not. Measured on an H200.
#pragma once

#include <cstddef>
#include <cstdint>

namespace phasor::cuda {

/// Threads of a block, at most.
constexpr int kThreads = 256;
/// Vectors of a row that each thread asks for before the sines are made: memory is on its way meanwhile.
constexpr int kAhead = 2;
/// Pairs whose cosines and sines a block holds at a time.
constexpr std::int64_t kRowPairs = 1024;
/// Bytes of a vector: the widest access of one thread.
constexpr std::int64_t kVectorBytes = 16;
/// Bytes of host tables that travel as a part of a kernel's parameter: 256 pairs.
constexpr std::size_t kTableBytes = 8 * 1024;

}  // namespace phasor::cuda
