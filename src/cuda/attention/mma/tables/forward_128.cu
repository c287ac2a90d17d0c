// SPDX-License-Identifier: Apache-2.0
// Heads of up to 128 channels, with tables by distance.
#include "cuda/attention/mma/kernels.cuh"

namespace phasor::cuda::attention::mma {

Kernel tabled_kernel_128(DType dtype) { return tabled_kernel_for<128>(dtype); }

}  // namespace phasor::cuda::attention::mma
