// SPDX-License-Identifier: Apache-2.0
// Attention forward on Hopper: heads of 64 channels, with a table of rows by distance.
#include "cuda/attention/hopper/forward/kernels.cuh"

namespace phasor::cuda::hopper {

ForwardKernel table_kernel_64(DType dtype) { return table_kernel_of<0>(dtype); }

}  // namespace phasor::cuda::hopper
