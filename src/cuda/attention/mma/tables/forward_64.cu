// SPDX-License-Identifier: Apache-2.0
// Heads of up to 64 channels, with tables by distance.
#include "cuda/attention/mma/kernels.cuh"

namespace phasor::cuda::attention::mma {

Kernel tabled_kernel_64(DType dtype) { return tabled_kernel_for<64>(dtype); }

}  // namespace phasor::cuda::attention::mma
