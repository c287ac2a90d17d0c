// SPDX-License-Identifier: Apache-2.0
// The general backward of attention in float.
#include "cuda/attention/backward/kernel.cuh"

namespace phasor::cuda::attention {

const void* backward_f32() { return reinterpret_cast<const void*>(&backward_kernel<float>); }

}  // namespace phasor::cuda::attention
