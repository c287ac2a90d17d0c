// SPDX-License-Identifier: Apache-2.0
// Attention forward on Hopper: heads of 64 channels, with windows of a table that features meet.
#include "cuda/attention/hopper/window/window.cuh"

namespace phasor::cuda::hopper {

ForwardKernel featured_kernel_64(DType dtype) { return window_kernel_of<kWindowWidths, true>(dtype); }

}  // namespace phasor::cuda::hopper
