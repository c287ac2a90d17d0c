// SPDX-License-Identifier: Apache-2.0
// Attention forward on Hopper: heads of up to 64 channels, with rows by distance that are added to values.
#include "cuda/attention/hopper/forward/kernels.cuh"

namespace phasor::cuda::hopper {

ForwardKernel valued_kernel_64(DType dtype) { return table_kernel_of<0, Valued>(dtype); }

}  // namespace phasor::cuda::hopper
