// SPDX-License-Identifier: Apache-2.0
// Heads of up to 64 channels.
#include "cuda/attention/mma/kernels.cuh"

namespace phasor::cuda::attention::mma {

Kernel kernel_64(DType dtype, ScoresIn scores) { return kernel_for<64>(dtype, scores); }

}  // namespace phasor::cuda::attention::mma
