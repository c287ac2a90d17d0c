// SPDX-License-Identifier: Apache-2.0
// Heads of up to 128 channels.
#include "cuda/attention/mma/backward/kernel.cuh"

namespace phasor::cuda::attention::mma::backward {

Kernel kernel_128(DType dtype) { return kernel_for<128, With::nothing>(dtype); }

}  // namespace phasor::cuda::attention::mma::backward
