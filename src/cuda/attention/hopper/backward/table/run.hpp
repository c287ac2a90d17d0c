// SPDX-License-Identifier: Apache-2.0
// The kernels around a backward with a table of clipped rows: products with it before; after it, what they owe dq and the table.
#pragma once

#include "cuda/attention/hopper/backward/parameter.cuh"
#include "cuda/attention/hopper/backward/run.hpp"

namespace phasor::cuda::hopper {

/// Products of queries with rows as tiles read them: in strips where a tile is not far, else in the log-sum-exp, which is there.
Status make_strips(const char* where, const Backward& backward, const BackwardParameter& p, void* stream);
/// dq and the table's gradient, from strips and sums.
Status finish_table(const char* where, const Backward& backward, const BackwardParameter& p, void* stream);

}  // namespace phasor::cuda::hopper
