// SPDX-License-Identifier: Apache-2.0
// Attention forward on Hopper: heads of 64 channels, with windows of a table of rows by distance.
#include "cuda/attention/hopper/window/window.cuh"

namespace phasor::cuda::hopper {

ForwardKernel window_kernel_64(DType dtype) { return window_kernel_of<kWindowWidths>(dtype); }

}  // namespace phasor::cuda::hopper
