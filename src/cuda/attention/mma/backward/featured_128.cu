// SPDX-License-Identifier: Apache-2.0
// Heads of up to 128 channels, with features that meet the only table.
#include "cuda/attention/mma/backward/kernel.cuh"

namespace phasor::cuda::attention::mma::backward {

Kernel featured_kernel_128(DType dtype) { return kernel_for<128, With::features>(dtype); }

}  // namespace phasor::cuda::attention::mma::backward
