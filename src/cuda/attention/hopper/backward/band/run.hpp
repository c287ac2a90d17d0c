// SPDX-License-Identifier: Apache-2.0
// The kernels around a backward with tables by distance: products with them before; after it, what they owe dq, dk and the tables.
#pragma once

#include "cuda/attention/hopper/backward/parameter.cuh"
#include "cuda/attention/hopper/backward/run.hpp"
#include "cuda/attention/hopper/backward/work.hpp"

namespace phasor::cuda::hopper {

/// Where in the workspace the kernels work, besides what the backward itself has there.
struct BandMemory {
  std::byte* begin;
  const BackwardLayout& layout;
};
/// Products of queries and of keys with lines as tiles read them: in strips where a tile is not far, else in the log-sum-exp, which is
/// there, and in numbers of keys.
Status make_band(const char* where, const Backward& backward, const BackwardParameter& p, const BandMemory& memory, void* stream);
/// dq, dk and the tables' gradients, from strips and sums.
Status finish_band(const char* where, const Backward& backward, const BackwardParameter& p, const BandMemory& memory, void* stream);

}  // namespace phasor::cuda::hopper
