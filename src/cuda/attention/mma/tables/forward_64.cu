// SPDX-License-Identifier: Apache-2.0
// Heads of up to 64 channels, with tables of scores by distance.
#include "cuda/attention/mma/kernels.cuh"

namespace phasor::cuda::attention::mma {

Kernel tabled_kernel_64(DType dtype, int tables) { return tabled_kernel_for<64>(dtype, tables); }

}  // namespace phasor::cuda::attention::mma
