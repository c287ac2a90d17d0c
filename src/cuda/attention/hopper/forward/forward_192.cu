// SPDX-License-Identifier: Apache-2.0
// Attention forward on Hopper: heads of 192 channels, values of 128.
#include "cuda/attention/hopper/forward/kernels.cuh"

namespace phasor::cuda::hopper {

ForwardKernel kernel_192(const KernelWish& wish) { return kernel_of<2>(wish); }

}  // namespace phasor::cuda::hopper
