// SPDX-License-Identifier: Apache-2.0
// Heads of up to 64 channels.
#include "cuda/attention/mma/backward/kernel.cuh"

namespace phasor::cuda::attention::mma::backward {

Kernel kernel_64(DType dtype) { return kernel_for<64, With::nothing>(dtype); }

}  // namespace phasor::cuda::attention::mma::backward
