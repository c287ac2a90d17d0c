// SPDX-License-Identifier: Apache-2.0
// Attention forward on Hopper: heads of 128 channels, with a table of rows by distance.
#include "cuda/attention/hopper/forward/kernels.cuh"

namespace phasor::cuda::hopper {

ForwardKernel table_kernel_128(DType dtype) { return table_kernel_of<kTableWidths>(dtype); }

}  // namespace phasor::cuda::hopper
