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
/// Bytes of host tables that travel as a part of a kernel's parameter, which may have 32,764 in all: 768 pairs.
constexpr std::size_t kTableBytes = 24 * 1024;
/// Threads of a block whose threads do an item each.
constexpr unsigned kItemThreads = 128;
/// Threads of a block that works on perceptrons, and bytes of shared memory that it may have: those of every device since sm_80.
constexpr int kPerceptronThreads = 128;
constexpr std::size_t kPerceptronBytes = 96 * 1024;
/// Distances that such a block takes together, at most.
constexpr std::int64_t kPerceptronDistances = 32;

/// Tokens of a walk (cuda/rotary/walk.hpp), threads below which every token has one of its own, and blocks of a multiprocessor that add:
/// how many registers a thread may have.
constexpr int kWalk = 16;
constexpr std::int64_t kWalkThreads = 65536;
constexpr int kWalkBlocks = 5;

/// Sinusoids of 16 bits (cuda/additive/quick.hpp): tokens that a thread asks for together, tokens of a thread where there are many, threads
/// that are enough of either, and blocks of a multiprocessor.
constexpr int kQuickAhead = 4;
constexpr int kQuickRun = 16;
constexpr std::int64_t kQuickThreads = 65536;
constexpr std::int64_t kQuickRunThreads = 4 * kQuickThreads;
constexpr int kQuickBlocks = 8;

/// cos_sin by float64: tokens of a thread, threads that are enough of them, and blocks of a multiprocessor.
constexpr int kDoublesRun = 4;
constexpr int kDoublesBlocks = 7;
constexpr std::int64_t kDoublesThreads = 2 * 65536;

/// Keys that move in place (cuda/moves): threads of a block, heads of tokens that a thread asks for before the sines are made, blocks of a
/// multiprocessor, and cosines and sines, and tokens, that a block holds at most.
constexpr int kMoveThreads = 128;
constexpr int kMovesAhead = 4;
constexpr int kMoveBlocks = 6;
constexpr int kMoveValues = 1024;
constexpr int kMoveTokens = 32;
/// A block has as few tokens as keep its threads busy of so many; of more it has several, which share sines where they move alike.
constexpr std::int64_t kMoveTokensApart = 4096;

}  // namespace phasor::cuda
