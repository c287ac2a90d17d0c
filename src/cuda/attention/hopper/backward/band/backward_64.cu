// SPDX-License-Identifier: Apache-2.0
// Attention backward on Hopper: heads of 64 channels beside a table that meets keys.
#include "cuda/attention/hopper/backward/kernels.cuh"

namespace phasor::cuda::hopper {

BackwardKernel backward_keys_kernel_64(DType dtype) { return backward_keys_kernel_of<0>(dtype); }

}  // namespace phasor::cuda::hopper
