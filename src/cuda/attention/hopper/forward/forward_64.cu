// SPDX-License-Identifier: Apache-2.0
// Attention forward on Hopper: heads of 64 channels.
#include "cuda/attention/hopper/forward/kernels.cuh"

namespace phasor::cuda::hopper {

ForwardKernel kernel_64(const KernelWish& wish) { return kernel_of<0>(wish); }

}  // namespace phasor::cuda::hopper
