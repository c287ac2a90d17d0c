// SPDX-License-Identifier: Apache-2.0
// The general attention in double.
#include "cuda/attention/kernels/kernels.cuh"

namespace phasor::cuda::attention {

Kernels kernels_f64() { return kernels_of<double>(backward_f64()); }

}  // namespace phasor::cuda::attention
