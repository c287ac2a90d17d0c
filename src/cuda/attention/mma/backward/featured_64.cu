// SPDX-License-Identifier: Apache-2.0
// Heads of up to 64 channels, with features that meet the only table.
#include "cuda/attention/mma/backward/kernel.cuh"

namespace phasor::cuda::attention::mma::backward {

Kernel featured_kernel_64(DType dtype) { return kernel_for<64, With::features>(dtype); }

}  // namespace phasor::cuda::attention::mma::backward
