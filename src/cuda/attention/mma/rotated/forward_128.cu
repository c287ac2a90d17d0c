// SPDX-License-Identifier: Apache-2.0
// Heads of up to 128 channels, rotated inside of the call.
#include "cuda/attention/mma/kernels.cuh"

namespace phasor::cuda::attention::mma {

Kernel rotated_kernel_128(DType dtype, ScoresIn scores) { return rotated_kernel_for<128>(dtype, scores); }

}  // namespace phasor::cuda::attention::mma
