// SPDX-License-Identifier: Apache-2.0
// The general attention in float.
#include "cuda/attention/kernels/kernels.cuh"

namespace phasor::cuda::attention {

Kernels kernels_f32() { return kernels_of<float>(backward_f32()); }

}  // namespace phasor::cuda::attention
