// SPDX-License-Identifier: Apache-2.0
// Heads of up to 128 channels, with tables of values.
#include "cuda/attention/mma/backward/kernel.cuh"

namespace phasor::cuda::attention::mma::backward {

Kernel valued_kernel_128(DType dtype) { return kernel_for<128, With::values>(dtype); }

}  // namespace phasor::cuda::attention::mma::backward
