// SPDX-License-Identifier: Apache-2.0
// Heads of up to 128 channels, with CoPE.
#include "cuda/attention/mma/cope/backward_kernel.cuh"

namespace phasor::cuda::attention::mma::backward {

Kernel counted_kernel_128(DType dtype) { return cope::backward_kernel_for<128>(dtype); }

}  // namespace phasor::cuda::attention::mma::backward
