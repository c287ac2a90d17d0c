// SPDX-License-Identifier: Apache-2.0
// Heads of up to 256 channels.
#include "cuda/attention/mma/kernels.cuh"

namespace phasor::cuda::attention::mma {

Kernel kernel_256(DType dtype, ScoresIn scores) { return kernel_for<256>(dtype, scores); }

}  // namespace phasor::cuda::attention::mma
