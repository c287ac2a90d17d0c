// SPDX-License-Identifier: Apache-2.0
// Heads of up to 64 channels, with tables of values.
#include "cuda/attention/mma/backward/kernel.cuh"

namespace phasor::cuda::attention::mma::backward {

Kernel valued_kernel_64(DType dtype) { return kernel_for<64, With::values>(dtype); }

}  // namespace phasor::cuda::attention::mma::backward
