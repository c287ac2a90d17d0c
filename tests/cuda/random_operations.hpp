// SPDX-License-Identifier: Apache-2.0
// Random calls of every function that neither rotates nor attends, made from a seed: sinusoids, learned tables, gradients of learned
// rotations, biases, positions.
#pragma once

#include "cuda/random_calls.hpp"

namespace phasor::test {

/// None where the seed's spec is one that the library refuses. Every buffer ends in bytes that no call may touch.
std::optional<RandomCall> random_operation(std::uint64_t seed);

/// The names of calls.
inline constexpr const char* kOperations[] = {
    "add sinusoids", "fill sinusoids", "lookup",    "scatter",   "phase gradient", "frequency gradient", "position gradient",
    "bias diagonal", "bias gradient",  "bias fill", "positions", "slots",          "temperatures"};

}  // namespace phasor::test
