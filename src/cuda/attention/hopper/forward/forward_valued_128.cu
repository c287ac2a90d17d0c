// SPDX-License-Identifier: Apache-2.0
// Attention forward on Hopper: heads of 128 channels, with rows by distance that are added to values.
#include "cuda/attention/hopper/forward/kernels.cuh"

namespace phasor::cuda::hopper {

ForwardKernel valued_kernel_128(DType dtype) { return table_kernel_of<kTableWidths, Valued>(dtype); }

}  // namespace phasor::cuda::hopper
