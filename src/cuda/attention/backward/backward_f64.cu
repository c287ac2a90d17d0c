// SPDX-License-Identifier: Apache-2.0
// The general backward of attention in double.
#include "cuda/attention/backward/kernel.cuh"

namespace phasor::cuda::attention {

const void* backward_f64() { return reinterpret_cast<const void*>(&backward_kernel<double>); }

}  // namespace phasor::cuda::attention
