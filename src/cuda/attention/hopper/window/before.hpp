// SPDX-License-Identifier: Apache-2.0
// What is made ready in the workspace before a forward with windows of a table.
#pragma once

#include "cuda/attention/hopper/parameter.cuh"
#include "cuda/attention/hopper/run.hpp"

namespace phasor::cuda::hopper {

/// The table as windows read it: as it is given, or in the workspace.
ConstTensorView window_table(const Forward& forward, void* workspace);
/// Fills what of that is in the workspace, and the sums that the parameter points to.
Status make_window_rows(const char* where, const Forward& forward, const ForwardParameter& parameter, void* workspace, void* stream);

}  // namespace phasor::cuda::hopper
