// SPDX-License-Identifier: Apache-2.0
// The small kernels around a backward on Hopper: rows made ready before, sums made gradients after.
#pragma once

#include "cuda/attention/hopper/backward/parameter.cuh"
#include "cuda/attention/hopper/backward/run.hpp"

namespace phasor::cuda::hopper {

/// lse and delta of all rows; where blocks add to dq in any order, zeros there.
Status make_rows(const char* where, const Backward& backward, const BackwardParameter& p, void* stream);
/// The bias by distance, as tiles read it.
Status make_windows(const char* where, const Backward& backward, const BackwardParameter& p, void* stream);
/// dq, scaled and rounded.
Status finish_queries(const char* where, const Backward& backward, const BackwardParameter& p, void* stream);
/// The gradient by distance, from slots and far tiles.
Status finish_distances(const char* where, const Backward& backward, const BackwardParameter& p, void* stream);

}  // namespace phasor::cuda::hopper
