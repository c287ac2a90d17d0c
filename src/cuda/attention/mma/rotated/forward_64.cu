// SPDX-License-Identifier: Apache-2.0
// Heads of up to 64 channels, rotated inside of the call.
#include "cuda/attention/mma/kernels.cuh"

namespace phasor::cuda::attention::mma {

Kernel rotated_kernel_64(DType dtype, ScoresIn scores) { return rotated_kernel_for<64>(dtype, scores); }

}  // namespace phasor::cuda::attention::mma
