// SPDX-License-Identifier: Apache-2.0
// Plain calls of prepare_attention in f16.
#include "cuda/prepare/plain/kernels.cuh"

namespace phasor::cuda {

const void* plain_kernel_f16(const PlainCall& call) { return plain_kernel<DType::f16>(call); }

}  // namespace phasor::cuda
