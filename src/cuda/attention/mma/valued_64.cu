// SPDX-License-Identifier: Apache-2.0
// Heads of up to 64 channels, with tables of values.
#include "cuda/attention/mma/kernels.cuh"

namespace phasor::cuda::attention::mma {

Kernel valued_kernel_64(DType dtype) { return valued_kernel_for<64>(dtype); }

}  // namespace phasor::cuda::attention::mma
