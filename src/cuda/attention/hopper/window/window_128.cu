// SPDX-License-Identifier: Apache-2.0
// Attention forward on Hopper: heads of 128 channels, with windows of a table of rows by distance.
#include "cuda/attention/hopper/window/window.cuh"

namespace phasor::cuda::hopper {

ForwardKernel window_kernel_128(DType dtype) { return window_kernel_of<kWindowWidths + 1>(dtype); }

}  // namespace phasor::cuda::hopper
