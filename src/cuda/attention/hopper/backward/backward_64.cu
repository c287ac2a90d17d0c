// SPDX-License-Identifier: Apache-2.0
// Attention backward on Hopper: heads of 64 channels.
#include "cuda/attention/hopper/backward/kernels.cuh"

namespace phasor::cuda::hopper {

BackwardKernel backward_kernel_64(const BackwardWish& wish) { return backward_kernel_of<0>(wish); }

}  // namespace phasor::cuda::hopper
