// SPDX-License-Identifier: Apache-2.0
// What is made ready in the workspace before a forward with strips.
#pragma once

#include "cuda/attention/hopper/parameter.cuh"
#include "cuda/attention/hopper/run.hpp"

namespace phasor::cuda::hopper {

/// Tables with a row for each near distance, and products with the rows beyond the ends.
Status make_ends(const char* where, const Forward& forward, const ForwardParameter& parameter, void* workspace, void* stream);
/// Strips of the blocks of queries that the parameter names, after those.
Status make_strips(const char* where, const Forward& forward, const ForwardParameter& parameter, void* workspace, void* stream);

}  // namespace phasor::cuda::hopper
