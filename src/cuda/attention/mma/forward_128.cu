// SPDX-License-Identifier: Apache-2.0
// Heads of up to 128 channels.
#include "cuda/attention/mma/kernels.cuh"

namespace phasor::cuda::attention::mma {

Kernel kernel_128(DType dtype, ScoresIn scores) { return kernel_for<128>(dtype, scores); }

}  // namespace phasor::cuda::attention::mma
