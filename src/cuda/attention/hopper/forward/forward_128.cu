// SPDX-License-Identifier: Apache-2.0
// Attention forward on Hopper: heads of 128 channels.
#include "cuda/attention/hopper/forward/kernels.cuh"

namespace phasor::cuda::hopper {

ForwardKernel kernel_128(const KernelWish& wish) { return kernel_of<1>(wish); }

}  // namespace phasor::cuda::hopper
