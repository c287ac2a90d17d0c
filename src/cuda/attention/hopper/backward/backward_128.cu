// SPDX-License-Identifier: Apache-2.0
// Attention backward on Hopper: heads of 128 channels.
#include "cuda/attention/hopper/backward/kernels.cuh"

namespace phasor::cuda::hopper {

BackwardKernel backward_kernel_128(const BackwardWish& wish) { return backward_kernel_of<1>(wish); }

}  // namespace phasor::cuda::hopper
