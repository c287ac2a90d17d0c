// SPDX-License-Identifier: Apache-2.0
// Attention forward on Hopper: heads of 128 channels, with windows of a table that features meet.
#include "cuda/attention/hopper/window/window.cuh"

namespace phasor::cuda::hopper {

ForwardKernel featured_kernel_128(DType dtype) { return window_kernel_of<kWindowWidths + 1, true>(dtype); }

}  // namespace phasor::cuda::hopper
