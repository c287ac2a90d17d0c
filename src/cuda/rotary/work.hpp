// SPDX-License-Identifier: Apache-2.0
// What a launch decides about a rotation: vectors or single elements, how much of a row a block holds, threads and blocks.
#pragma once

#include "cuda/rotary/rotate.hpp"

namespace phasor::cuda {

RotateWork work_of(const job::RotateJob& job);

/// Whether every vector of every head is aligned, and no vector leaves its half of a head. From one pairing to the other: never.
bool takes_vectors(const RotateWork& work);

struct LaunchShape {
  int64_t blocks = 0;
  int threads = 0;
  std::size_t shared_bytes = 0;  // of the row that a block holds
};
LaunchShape launch_shape(const RotateWork& work, bool vectors);

}  // namespace phasor::cuda
