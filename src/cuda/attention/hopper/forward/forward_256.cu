// SPDX-License-Identifier: Apache-2.0
// Attention forward on Hopper: heads of 256 channels.
#include "cuda/attention/hopper/forward/kernels.cuh"

namespace phasor::cuda::hopper {

ForwardKernel kernel_256(const KernelWish& wish) { return kernel_of<3>(wish); }

}  // namespace phasor::cuda::hopper
